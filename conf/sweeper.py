"""Group `hydra/sweeper`: what `-m` makes of values separated by commas."""

from dataclasses import dataclass
from typing import Any

from .registry import register


@dataclass
class Grid:
    """Every combination of the values, each as a run of its own; run again, it skips what is done."""

    _target_: str = "hydra_plugins.iolaus.GridSweeper"
    max_batch_size: int | None = None
    """Jobs handed to the launcher at once; none hands over all."""
    params: Any = None
    """Values to sweep over beside those on the command line, such as `{seed: "1,2"}`."""


register("hydra/sweeper", grid=Grid)
