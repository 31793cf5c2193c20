"""Group `checkpoint`: when to save, what to keep."""

from dataclasses import dataclass
from typing import Any

from iolaus.conf.registry import register
from iolaus.conf.values import AT_LEAST_0, COUNT, WHOLE_FROM_0, Choice, setting


@dataclass
class Checkpoint:
    """Atomic checkpoints: `last.ckpt` always, `best.ckpt` by a validation metric."""

    _target_: str = "runner.checkpoints.Checkpoint"
    every_steps: int = setting(500, allowed=WHOLE_FROM_0)
    """Steps between two checkpoints; 0 saves at the end only."""
    every_minutes: Any = setting(10.0, allowed=AT_LEAST_0)
    """Minutes between two checkpoints at the most, whatever the steps; none turns the clock off."""
    keep_last: int = setting(1, allowed=COUNT)
    """How many of the newest periodic checkpoints stay on disk."""
    monitor: Any = None
    """Figure that names the best checkpoint, such as `val/validation/loss`. None takes the one of the first validation
    set that the labels ask for: accuracy, micro-F1 for several labels, Spearman's correlation for numbers, F1 for
    entities and answers, the loss where there are no labels."""
    mode: Any = setting(None, allowed=Choice(("min", "max")))
    """Whether the monitored figure is better when small (`min`) or large (`max`); none follows from its name."""


register("checkpoint", default=Checkpoint)
