"""An exponential moving average of the weights that an optimizer trains, for any optimizer."""

import math
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import StateDict

from tiryns.runner.optim.groups import parameters_of
from tiryns.runner.optim.hooks import LoopNeeds
from tiryns.runner.patches.torch import foreach
from tiryns.runner.patches.torch.optimizers import skips_update
from tiryns.runner.widening import at_least_fp32, widen


class WeightAverage:
    """Keeps avg <- d * avg + (1 - d) * weight after each update, in fp32 and in the optimizer's state.

    The average begins with the weights before the first update, and never affects the trained weights. With `warmup`, d
    is at most (1 + n) / (10 + n) in update n, counted from 1. With `evaluated`, `loop_needs(optimizer).evaluation` puts
    the average into the model.

    Raises:
        ValueError: the optimizer evaluates its own average.

    Example:
        >>> weight = torch.nn.Parameter(torch.zeros(1))
        >>> optimizer = torch.optim.SGD([weight], lr=1.0)
        >>> average = WeightAverage(optimizer, decay=0.75, warmup=False, evaluated=True)
        >>> (weight * 4).sum().backward()
        >>> optimizer.step()
        >>> with average.in_model():
        ...     print(weight.item())
        -1.0
        >>> weight.item()
        -4.0
    """

    def __init__(self, optimizer: Any, decay: float, warmup: bool, evaluated: bool) -> None:
        if hasattr(optimizer, "eval"):
            name = optimizer.param_groups[0].get("optimizer", type(optimizer).__name__)
            raise ValueError(f"module.ema: {name} evaluates an average of its own; set module.ema=null")
        self.decay, self.warmup, self.optimizer = decay, warmup, optimizer
        self._first: dict[Tensor, Tensor] = {}
        self._trained: dict[Tensor, Tensor] = {}
        self._saved: list[Tensor | None] = []
        optimizer.register_step_pre_hook(self._before_step)
        optimizer.register_step_post_hook(self._after_step)
        optimizer.register_load_state_dict_pre_hook(self._before_load)
        optimizer.register_load_state_dict_post_hook(self._after_load)
        optimizer.average = self
        if evaluated:
            optimizer.train, optimizer.eval = self.train, self.eval

    def train(self) -> None:
        """Puts the trained weights back into the model."""
        with torch.no_grad():
            for p, weight in self._trained.items():
                p.copy_(weight)
        self._trained.clear()

    def eval(self) -> None:
        """Puts the average into the model; parameters that were never updated stay."""
        if not self._trained:
            with torch.no_grad():
                for p, state in self.optimizer.state.items():
                    if "average" in state:
                        self._trained[p] = p.detach().clone()
                        p.copy_(state["average"])

    def in_model(self) -> AbstractContextManager[None]:
        """Returns a context in which the model has the average."""
        return LoopNeeds(self).evaluation()

    @torch.no_grad()
    def _before_step(self, optimizer: Optimizer, *_: object) -> None:
        for p in parameters_of(optimizer):
            if p.grad is not None and "average" not in optimizer.state.get(p, {}):
                self._first[p] = p.detach().to(at_least_fp32(p.dtype), copy=True)

    @torch.no_grad()
    def _after_step(self, optimizer: Optimizer, *_: object) -> None:
        for group in () if skips_update(optimizer) else optimizer.param_groups:
            n = group["averaged"] = group.get("averaged", 0) + 1
            decay = min(self.decay, (1 + n) / (10 + n)) if self.warmup else self.decay
            params = [p for p in group["params"] if p.grad is not None]
            for p in params:  # optimizers take an empty state for a first step, so the average comes after it
                if p in self._first:
                    optimizer.state[p]["average"] = self._first.pop(p)
            if params:
                averages = [optimizer.state[p]["average"] for p in params]
                foreach.lerp_(averages, [widen(p.detach()) for p in params], 1 - decay)

    def _before_load(self, optimizer: Optimizer, state_dict: StateDict) -> None:
        numbers = [number for group in state_dict["param_groups"] for number in group["params"]]
        self._saved = [state_dict["state"].get(number, {}).get("average") for number in numbers]

    def _after_load(self, optimizer: Optimizer) -> None:
        """Restores the averages in at least fp32, as torch casts state to the type of its weights."""
        self._trained.clear()
        for p, average in zip(parameters_of(optimizer), self._saved, strict=True):
            if average is not None:
                wide = at_least_fp32(p.dtype)
                optimizer.state[p]["average"] = average.detach().to(p.device, wide, copy=True)
        self._saved = []


def decay_of(decay: float | None, half_life: float | None) -> float | None:
    """Returns the decay per step, `decay` or 2 ** (-1 / half_life); None if both are None; ValueError if both are set."""
    if decay is not None and half_life is not None:
        raise ValueError("module.ema and module.ema_half_life are two names of one thing; set one of them")
    return math.exp2(-1 / half_life) if half_life is not None else decay
