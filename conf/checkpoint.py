"""Group `checkpoint`: when to save, what to keep."""

from dataclasses import dataclass
from typing import Any

from .registry import register


@dataclass
class Checkpoint:
    """Atomic checkpoints: `last.ckpt` always, `best.ckpt` by a validation metric."""

    _target_: str = "runner.checkpoint.Checkpoint"
    every_steps: int = 500
    """Steps between two checkpoints; 0 saves at the end only."""
    every_minutes: Any = 10.0
    """Minutes between two checkpoints at the most, whatever the steps; none turns the clock off."""
    keep_last: int = 1
    """How many of the newest periodic checkpoints stay on disk."""
    monitor: Any = None
    """Figure that names the best checkpoint, such as `val/validation/loss`. None takes that of the first validation
    set which the labels ask for: accuracy, micro-F1 for several labels, Spearman's correlation for numbers, F1 for
    entities and answers, the loss where there are no labels."""
    mode: Any = None
    """Whether the monitored figure is better when small (`min`) or large (`max`); none follows from its name."""


register("checkpoint", default=Checkpoint)
