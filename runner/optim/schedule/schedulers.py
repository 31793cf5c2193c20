"""torch schedulers that apply a closed form of the step to every parameter group of an optimizer."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from tiryns.runner.optim.schedule.chain import Schedule
from tiryns.runner.optim.schedule.phases import (
    TOKENS,
    Phase,
    Steps,
    ThreePhaseSchedule,
    check_decay,
    check_kind,
    curve,
)
from tiryns.runner.order.timeline import Timeline


class ClosedFormScheduler(LambdaLR):
    """Sets the rate of each group to its own base rate times `factor(step)`.

    Its state is only the number of steps, so a run resumed with another schedule follows the new schedule from there.
    With `last_epoch` k, groups that have an `initial_lr` continue at step k + 1.

    Example:
        >>> import torch
        >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.5)
        >>> ClosedFormScheduler(optimizer, lambda step: 1 / (step + 2)).get_last_lr()
        [0.25]
    """

    def __init__(self, optimizer: Optimizer, factor: Callable[[int], float], last_epoch: int = -1) -> None:
        self.factor = factor
        super().__init__(optimizer, factor, last_epoch)

    def state_dict(self) -> dict[str, int]:
        return {"last_epoch": self.last_epoch}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores the number of steps and sets the rates of that step (load the optimizer's state first)."""
        self.last_epoch = int(state_dict["last_epoch"])
        self._last_lr = [base * self.factor(self.last_epoch) for base in self.base_lrs]
        for group, base, lr in zip(self.optimizer.param_groups, self.base_lrs, self._last_lr, strict=True):
            group["initial_lr"], group["lr"] = base, lr


class ThreePhaseScheduler(ClosedFormScheduler):
    """Follows `schedule`, a three-phase schedule or the schedules of a run's phases; `get_scheduler` makes one."""

    def __init__(self, optimizer: Optimizer, schedule: Schedule) -> None:
        self.schedule = schedule
        super().__init__(optimizer, schedule.factor)


class PhasedScheduler(ThreePhaseScheduler):
    """Also sets the weight decay of each group: its own decay times the phase's decay divided by the run's.

    Example:
        >>> import torch
        >>> from tiryns.runner.order.timeline import Timeline
        >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0, weight_decay=0.1)
        >>> timeline = Timeline(["stable", "decay"], [1, 1])
        >>> scheduler = PhasedScheduler(optimizer, ThreePhaseSchedule(), timeline, [1.0, 0.5])
        >>> optimizer.step()
        >>> scheduler.step()
        >>> optimizer.param_groups[0]["weight_decay"]
        0.05
    """

    def __init__(
        self, optimizer: Optimizer, schedule: Schedule, timeline: Timeline, decays: Sequence[float]
    ) -> None:
        self.timeline, self.decays = timeline, decays
        self.base_decays = [group.get("weight_decay") for group in optimizer.param_groups]
        super().__init__(optimizer, schedule)

    def step(self, epoch: int | None = None) -> None:
        super().step(epoch)
        self._set_decays()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores the number of steps, and sets the rates and weight decays of that step."""
        super().load_state_dict(state_dict)
        self._set_decays()

    def _set_decays(self) -> None:
        decay = self.decays[self.timeline.at(self.last_epoch)]
        for group, base in zip(self.optimizer.param_groups, self.base_decays, strict=True):
            if base is not None:
                group["weight_decay"] = base * decay


class InverseSqrtScheduler(ClosedFormScheduler):
    """Falls as 1 - sqrt(s/n) over n = `cooldown_steps` steps, then stays at zero (arXiv 2405.18392, section 3).

    Example:
        >>> import torch
        >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.1)
        >>> scheduler = InverseSqrtScheduler(optimizer, cooldown_steps=4)
        >>> [scheduler.lr_lambda(step) for step in (0, 1, 4, 9)]
        [1.0, 0.5, 0.0, 0.0]
    """

    def __init__(self, optimizer: Optimizer, cooldown_steps: int, last_epoch: int = -1) -> None:
        if cooldown_steps < 1:
            raise ValueError(f"cooldown_steps={cooldown_steps} must be at least 1.")
        self.cooldown_steps = cooldown_steps
        super().__init__(optimizer, self.lr_lambda, last_epoch)

    def lr_lambda(self, current_step: int) -> float:
        """Returns the factor of the base rate at a step (0 is the first)."""
        return curve("inverse_sqrt", current_step, self.cooldown_steps, 0.0)


def get_scheduler(
    optimizer: Optimizer,
    warmup_kind: str = "linear",
    warmup_steps: Steps = 0,
    warmup_decay: float = 0.0,
    training_kind: str = "constant",
    training_steps: Steps = -1,
    training_decay: float = 1.0,
    cooldown_kind: str = "linear",
    cooldown_steps: Steps = 0,
    cooldown_decay: float = 0.0,
    max_steps: int | None = None,
    warmup_tokens: float | None = None,
    cooldown_tokens: float | None = None,
) -> ThreePhaseScheduler:
    """Returns the three-phase schedule on an optimizer; step it once per optimizer step.

    Steps are numbers or fractions of max_steps. Decays are factors of the peak (also in cosine phases), but factors per
    step in exponential phases. Each phase starts where the one before ended. A run converts tokens to steps beforehand.
    Raises ValueError as `ThreePhaseSchedule` does, and for lengths in tokens.

    Example:
        >>> import torch
        >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
        >>> scheduler = get_scheduler(optimizer, warmup_steps=2, training_steps=2, cooldown_steps=2)
        >>> [scheduler.factor(step) for step in range(7)]
        [0.0, 0.5, 1.0, 1.0, 1.0, 0.5, 0.0]
    """
    for (tokens, steps), length in zip(TOKENS.items(), (warmup_tokens, cooldown_tokens), strict=True):
        if length is not None:
            raise ValueError(
                f"{tokens}={length:g} becomes steps only in a run, which counts tokens; give {steps}"
            )
    schedule = ThreePhaseSchedule(
        warmup_kind, warmup_steps, warmup_decay, training_kind, training_steps, training_decay,
        cooldown_kind, cooldown_steps, cooldown_decay, max_steps,
    )  # fmt: skip
    return ThreePhaseScheduler(optimizer, schedule)


def get_single_scheduler(
    optimizer: Optimizer,
    kind: str = "constant",
    num_steps: int = 0,
    decay: float = 0.0,
    direction: Literal["increase", "decrease"] = "increase",
) -> ClosedFormScheduler | None:
    """Makes a single phase: `decrease` falls from the base rate, `increase` rises to it; afterwards the rate stays.

    The decay is the factor at the phase's end (of a rise: at its start), or the factor per step if exponential. Returns
    None without steps. Raises ValueError for an unknown kind or direction, a decay out of range, negative steps.

    Example:
        >>> import torch
        >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
        >>> scheduler = get_single_scheduler(optimizer, "linear", num_steps=4, decay=0.5, direction="decrease")
        >>> [scheduler.factor(step) for step in range(6)]
        [1.0, 0.875, 0.75, 0.625, 0.5, 0.5]
    """
    kind = check_kind(kind, "kind")
    if direction not in ("increase", "decrease"):
        raise ValueError(f"direction='{direction}' must be 'increase' or 'decrease'.")
    if num_steps < 0:
        raise ValueError(f"num_steps={num_steps} must not be negative.")
    if num_steps == 0:
        return None
    name: Literal["training", "warmup"] = "training" if direction == "decrease" else "warmup"
    phase = Phase(name, kind, 0, num_steps, check_decay(kind, decay, "decay"), 1.0)
    return ClosedFormScheduler(optimizer, phase.factor)
