"""Group `checkpoint`: when to save, what to keep."""

from dataclasses import dataclass
from typing import Any

from tiryns.conf.registry import register
from tiryns.conf.values import AT_LEAST_0, COUNT, WHOLE_FROM_0, Choice, setting


@dataclass
class Checkpoint:
    """Atomic checkpoints: `last.ckpt` always, `best.ckpt` by a validation metric."""

    _target_: str = "runner.checkpoints.Checkpoint"
    every_steps: int = setting(500, allowed=WHOLE_FROM_0)
    """Steps between two checkpoints; 0 saves at the end only."""
    every_minutes: Any = setting(10.0, allowed=AT_LEAST_0)
    """Most minutes between two checkpoints, whatever the steps; none sets no limit."""
    keep_last: int = setting(1, allowed=COUNT)
    """How many of the newest periodic checkpoints stay on disk; where a run may be taken back, two older ones too."""
    monitor: Any = None
    """Metric that chooses the best checkpoint, such as `val/validation/loss`. None takes that of the task on the first
    validation set: accuracy, micro-F1 (several labels), Spearman (numbers), F1 (entities, answers), else the loss.
    Of checkpoints with equal values that with the smallest loss on the same set is the best, then the first."""
    mode: Any = setting(None, allowed=Choice(("min", "max")))
    """Whether a small (`min`) or large (`max`) metric is better; none derives it from the metric's name."""


register("checkpoint", default=Checkpoint)
