"""Settings of objectives that may have a teacher."""

from dataclasses import dataclass
from typing import Any

from tiryns.conf.values import AT_LEAST_0, NAMED, Bounds, setting


@dataclass
class Taught:
    """Distillation (arXiv 1503.02531): the student learns from labels and from a frozen teacher's outputs."""

    teacher: str | None = setting(None, allowed=NAMED)
    """A trained model with the same tokenizer, by hub name, folder or run folder; none trains on labels alone, and
    then no other setting of the teacher counts."""
    teacher_weight: float = setting(0.5, allowed=AT_LEAST_0)
    """Weight of the divergence from the teacher's distribution, which is multiplied by `teacher_temperature` squared."""
    label_weight: float = setting(0.5, allowed=AT_LEAST_0)
    """Weight of the loss on the labels beside the teacher's; in validation it counts alone, with 1."""
    teacher_temperature: float = setting(2.0, allowed=Bounds(0, open_low=True))
    """What the logits of teacher and student are divided by."""


def check_teacher(objective: dict[str, Any]) -> None:
    """Raises ValueError for a teacher without any weight on a loss."""
    names = [name for name in ("label_weight", "teacher_weight", "hidden_weight") if name in objective]
    if objective.get("teacher") and not any(objective[name] for name in names):
        told = ", ".join(f"objective.{name}" for name in names)
        raise ValueError(f"nothing is learnt: {told} are all 0; give one of them a weight")
