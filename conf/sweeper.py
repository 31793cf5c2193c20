"""Group `hydra/sweeper`: what `-m` makes of several values: a grid of them, or a search among them."""

from dataclasses import dataclass
from typing import Any

from iolaus.conf.registry import register


@dataclass
class Grid:
    """Every combination of the values, each as a run of its own; run again, it skips what is done."""

    _target_: str = "hydra_plugins.iolaus.GridSweeper"
    max_batch_size: int | None = None
    """Jobs handed to the launcher at once; none hands over all."""
    params: Any = None
    """Values to sweep over beside those on the command line, such as `{seed: "1,2"}`."""


@dataclass
class Optuna:
    """Trials suggested by Optuna (needs `iolaus[search]`); killed and started again it goes on with the same ones."""

    _target_: str = "hydra_plugins.iolaus.OptunaSweeper"
    n_trials: int = 20
    """Trials in all, those that failed or were pruned included; more of them continue a search that has ended."""
    n_jobs: int = 1
    """Trials handed to the launcher at once, which runs them beside each other if it can."""
    direction: Any = None
    """Whether the objective, the best value of `checkpoint.monitor`, is better small (`min`) or large (`max`); none
    follows from the figure."""
    sampler: str = "tpe"
    """`tpe` learns from earlier trials, `random` does not."""
    seed: int = 0
    """What is suggested follows from it."""
    startup_trials: int = 5
    """Trials that are drawn at random, and complete before any is pruned (`asha` does not wait)."""
    pruner: str = "median"
    """Stops a trial that at some validation is worse than the `median` of others, or not among `asha`'s; or `none`."""
    storage: Any = None
    """Journal file of the study; none puts it in the sweep's folder."""
    params: Any = None
    """Values to search over beside those on the command line."""


register("hydra/sweeper", grid=Grid, optuna=Optuna)
