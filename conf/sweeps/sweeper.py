"""Group `hydra/sweeper`: which jobs `-m` makes of several values."""

from dataclasses import dataclass
from typing import Any

from omegaconf import MISSING

from tiryns.conf.registry import register
from tiryns.conf.values import NAMED, setting


@dataclass
class Grid:
    """One run for every combination of the values; the same sweep started again skips finished runs."""

    _target_: str = "hydra_plugins.tiryns.GridSweeper"
    max_batch_size: int | None = None
    """Most jobs that the launcher starts at once; none sets no bound."""
    params: Any = None
    """Values to sweep over beside those on the command line, such as `{seed: "1,2"}`."""


@dataclass
class Optuna:
    """Trials suggested by Optuna (needs `tiryns[search]`); a killed search resumes with the same trials."""

    _target_: str = "hydra_plugins.tiryns.OptunaSweeper"
    n_trials: int = 20
    """Number of trials, failed and pruned ones included; a larger number continues a finished search."""
    n_jobs: int = 1
    """Trials that the launcher starts at once, in parallel if it can."""
    direction: Any = None
    """Whether a small (`min`) or large (`max`) value of `checkpoint.monitor` is better; none follows from its name."""
    sampler: str = "tpe"
    """`tpe` learns from earlier trials, `random` does not."""
    seed: int = 0
    """Seed of the suggestions."""
    startup_trials: int = 5
    """Trials that are drawn at random, and must finish before any trial is pruned (but by `asha`)."""
    pruner: str = "median"
    """Stops a trial with a validation worse than the `median` of others, or by `asha`; `none` stops none."""
    storage: Any = None
    """Journal file of the study; none puts it in the sweep's folder."""
    params: Any = None
    """Values to search over beside those on the command line."""


@dataclass
class Suite:
    """Models on every task of a suite, with one table: `tiryns suite=small model=RUN`; `suite.data=...` sets a field."""

    _target_: str = "hydra_plugins.tiryns.SuiteSweeper"
    suite: str = setting(MISSING, allowed=NAMED)
    """Name of the suite (`suite=NAME`), or a path to a YAML file."""
    models: Any = None
    """Runs, folders of models, names on the hub, or options of the group model (`model=A,B`); none takes the default."""
    tasks: Any = None
    """Names of the tasks to run; none takes all."""
    data: Any = setting(None, allowed=NAMED)
    """Folder of the data, for suites with sources that are files."""
    source: Any = None
    """Which of a suite's sources to read; none takes its first, with `data` the first that is files."""
    overrides: list[str] = setting(factory=list)
    """Settings of every job, which the command has beside these; several values make a grid."""


register("hydra/sweeper", grid=Grid, optuna=Optuna, suite=Suite)
