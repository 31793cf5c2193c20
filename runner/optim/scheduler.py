"""The schedule of runner.optim.schedule, applied to every parameter group of an optimizer."""

from collections.abc import Callable
from typing import Any, Literal

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from runner.optim.schedule import Steps, ThreePhaseSchedule, check_decay, check_kind, shape


class ClosedFormScheduler(LRScheduler):
    """Sets the rate of each group to its own base rate times `factor(step)`.

    Its state is the number of steps: everything else comes from the config, so that a run resumed with
    another schedule follows the new one from there.
    """

    def __init__(self, optimizer: Optimizer, factor: Callable[[int], float]) -> None:
        self.factor = factor
        super().__init__(optimizer)

    def get_lr(self) -> list[float | Tensor]:
        """The rate of every group at the current step."""
        factor = self.factor(self.last_epoch)
        return [base * factor for base in self.base_lrs]

    def state_dict(self) -> dict[str, Any]:
        """The number of steps taken."""
        return {"last_epoch": self.last_epoch}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores the number of steps and sets the rates they give (load the optimizer's state first)."""
        self.last_epoch = int(state_dict["last_epoch"])
        for group, base, lr in zip(self.optimizer.param_groups, self.base_lrs, self.get_lr(), strict=True):
            group["initial_lr"], group["lr"] = base, lr
        self._last_lr = self.get_lr()


class ThreePhaseScheduler(ClosedFormScheduler):
    """Follows a three-phase schedule, kept in `schedule`."""

    def __init__(self, optimizer: Optimizer, schedule: ThreePhaseSchedule) -> None:
        self.schedule = schedule
        super().__init__(optimizer, schedule.factor)


class InverseSqrtScheduler(ClosedFormScheduler):
    """Falls as 1 - sqrt(s/n) over cooldown_steps n, then stays at zero (arXiv 2405.18392, section 3)."""

    def __init__(self, optimizer: Optimizer, cooldown_steps: int) -> None:
        if cooldown_steps < 1:
            raise ValueError(f"cooldown_steps={cooldown_steps} must be at least 1.")
        super().__init__(optimizer, lambda step: shape("inverse_sqrt", step, cooldown_steps, 0.0))


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
) -> ThreePhaseScheduler:
    """The three-phase schedule on an optimizer; step it once per optimizer step.

    Steps are numbers or fractions of max_steps. Raises ValueError as `ThreePhaseSchedule` does.
    """
    schedule = ThreePhaseSchedule(
        warmup_kind,
        warmup_steps,
        warmup_decay,
        training_kind,
        training_steps,
        training_decay,
        cooldown_kind,
        cooldown_steps,
        cooldown_decay,
        max_steps,
    )
    return ThreePhaseScheduler(optimizer, schedule)


def get_single_scheduler(
    optimizer: Optimizer, kind: str, num_steps: int, decay: float, direction: Literal["up", "down"]
) -> ClosedFormScheduler:
    """One phase alone: `down` falls from the base rate, `up` rises to it; afterwards the rate stays.

    Raises ValueError for an unknown kind or direction, a decay out of range, fewer than one step.
    """
    kind = check_kind(kind, "kind")
    decay = check_decay(kind, decay, "decay")
    if direction not in ("up", "down"):
        raise ValueError(f"direction='{direction}' must be 'up' or 'down'.")
    if num_steps < 1:
        raise ValueError(f"num_steps={num_steps} must be at least 1.")

    def factor(step: int) -> float:
        inside = min(step, num_steps)
        return shape(kind, inside if direction == "down" else num_steps - inside, num_steps, decay)

    return ClosedFormScheduler(optimizer, factor)
