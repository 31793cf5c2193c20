"""A linear warm-up, then one decay over the rest of the training, as is usual in finetuning."""

import math
from collections.abc import Callable, Collection, Mapping

from tiryns.conf.values import suggest
from tiryns.runner.optim.schedule.phases import ThreePhaseSchedule

DECAYS: dict[str, dict[str, float]] = {
    "constant": {},
    "linear": {},
    "cosine": {},
    "polynomial": {"power": 1.0, "lr_end": 0.0},
}
"""The settings of each kind of decay, with their defaults; `lr_end` is a rate."""


def check_warmup_decay(kind: str, settings: Collection[str], warmup_steps: int, warmup_ratio: float) -> None:
    """Raises ValueError for an unknown kind or setting, and for a warm-up out of range."""
    if kind not in DECAYS:
        raise ValueError(f"scheduler_type={kind!r}; there are: {', '.join(DECAYS)}" + suggest(kind, DECAYS))
    if unknown := next((name for name in settings if name not in DECAYS[kind]), None):
        known = ", ".join(DECAYS[kind]) or "none"
        raise ValueError(f"scheduler_kwargs: {kind} has no setting {unknown!r}; it has: {known}")
    if warmup_steps < 0 or not 0 <= warmup_ratio <= 1:
        raise ValueError(f"{warmup_steps=} must be 0 or more, {warmup_ratio=} from 0 to 1")


def warmup_decay_factor(
    kind: str,
    settings: Mapping[str, float],
    warmup_steps: int,
    warmup_ratio: float,
    learning_rate: float,
    num_steps: Callable[[], int | None],
) -> Callable[[int], float]:
    """The factor of the learning rate at each step: from 0 up to 1, then down over the rest of the steps.

    Raises ValueError where it depends on the number of steps and `num_steps`, called only then, gives none.
    """
    falls, by_ratio = kind != "constant", warmup_ratio > 0 and not warmup_steps
    steps = num_steps() if falls or by_ratio else None
    if steps is None and (falls or by_ratio):
        raise ValueError(f"scheduler_type={kind!r} goes over all steps, whose number only a Trainer knows")
    warmup = warmup_steps or math.ceil(warmup_ratio * (steps or 0))
    schedule = ThreePhaseSchedule(
        warmup_steps=warmup,
        training_kind="linear" if kind == "polynomial" else kind,
        training_steps=max(0, (steps or 0) - warmup) if falls else -1,
        training_decay=0.0 if falls else 1.0,
    )
    if kind != "polynomial":
        return schedule.factor
    chosen = {**DECAYS[kind], **settings}
    power, end = chosen["power"], chosen["lr_end"] / learning_rate if learning_rate else 0.0

    def factor(step: int) -> float:
        linear = schedule.factor(step)
        return linear if step < warmup else end + (1.0 - end) * linear**power

    return factor
