"""What the phases of a run change in its global batches."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tiryns.runner.data.micro_batch import Collate
from tiryns.runner.order.timeline import Timeline
from tiryns.runner.samplers import GlobalBatchSampler


class PhaseParts(NamedTuple):
    """The length of a phase, and what it has in place of the parts of the run."""

    name: str
    steps: int
    make_sampler: Callable[..., GlobalBatchSampler] | None = None
    """A sampler with batch sizes of its own."""
    collator: Collate | None = None


class PhaseCollators:
    """Which collator a global batch has, and how much is done of what its settings follow.

    A phase with a collator of its own has its settings change over that phase, others those of the run over the run.

    Example:
        >>> phases = [PhaseParts("stable", 6), PhaseParts("decay", 2, collator=str.upper)]
        >>> collators = PhaseCollators(phases, str.lower)
        >>> [collators.at(number, 8) == expected for number, expected in [(2, (str.lower, 0.25)), (7, (str.upper, 0.5))]]
        [True, True]
    """

    def __init__(self, phases: Sequence[PhaseParts], collator: Collate) -> None:
        self.phases, self.collator = list(phases), collator
        self.timeline = Timeline([phase.name for phase in phases], [phase.steps for phase in phases])

    def at(self, number: int, num_steps: int) -> tuple[Collate, float]:
        """The collator of a global batch, counted from 0, and how much is done, 0 to 1; the run has `num_steps`."""
        phase = self.phases[self.timeline.at(number)]
        if phase.collator is None:
            return self.collator, number / num_steps
        return phase.collator, min(self.timeline.inside(number) / phase.steps, 1.0)
