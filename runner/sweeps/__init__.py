"""Many runs: grids, Optuna, SLURM arrays, and the configs of their jobs."""

from typing import TYPE_CHECKING

from iolaus.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from iolaus.runner.sweeps.sweeper import SweepPage
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["SweepPage"]
