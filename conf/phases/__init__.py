"""The phases of a run, the setting `phases`.

- `definition`: what a phase has, and which settings of the run it may change.
- `checks`: the phases as they are given.
"""

from iolaus.conf.phases.checks import phases_of
from iolaus.conf.phases.definition import CHANGED, LENGTHS, Phase

__all__ = ["CHANGED", "LENGTHS", "Phase", "phases_of"]
