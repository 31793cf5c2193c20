"""8-bit variants by bitsandbytes, in which blocks of 256 state values share a scale (arXiv 2110.02861).

Its kernels lack Adam's coupled decay and the norms of LAMB and LARS. Rules around a step of Adam or SGD add these.
"""

import logging
from collections.abc import Callable
from importlib import import_module

import torch
from torch.optim import Optimizer
from torch.optim.optimizer import StateDict

from tiryns.runner.optim.algorithms.trust_ratio import move
from tiryns.runner.optim.groups import Group, Groups

Step = Callable[[Group], None]
"""A step of bitsandbytes on one parameter, with the settings of a group."""

Rule = Callable[[Step, Group, torch.Tensor], None]
"""Takes a step on one parameter, with additions that the kernel lacks."""


def refuse_options(name: str, **options: object) -> None:
    """Raises ValueError for an option that is set and that the 8-bit variant would ignore."""
    for option, value in options.items():
        if value:
            raise ValueError(f"{name} with quantized=true does not know {option}={value}; keep its default")


def eight_bit(class_name: str, groups: Groups, rule: Rule | None = None, **settings: object) -> Optimizer:
    """Makes an optimizer of bitsandbytes; tensors below 4096 values keep 32 bits. Raises ImportError if it is missing."""
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # it warns of kernels that no optimizer uses
    try:
        library = import_module("bitsandbytes.optim")
    except ImportError as error:
        raise ImportError(
            f"optimizer.quantized=true needs bitsandbytes: pip install 'tiryns[quantized]' ({error})"
        ) from error
    base = getattr(library, class_name)

    class EightBit(base):  # type: ignore[misc, valid-type]
        """Runs the load hooks, which bitsandbytes leaves out, and the rule."""

        def load_state_dict(self, state_dict: StateDict, move_to_device: bool = True) -> None:
            for hook in self._optimizer_load_state_dict_pre_hooks.values():
                state_dict = hook(self, state_dict) or state_dict
            super().load_state_dict(state_dict, move_to_device)
            for post_hook in self._optimizer_load_state_dict_post_hooks.values():
                post_hook(self)

        def update_step(self, group: Group, p: torch.Tensor, gindex: int, pindex: int) -> None:
            def step(settings: Group) -> None:
                super(EightBit, self).update_step(settings, p, gindex, pindex)

            if rule is None:
                step(group)
            else:
                rule(step, group, p)

    EightBit.__name__ = EightBit.__qualname__ = class_name
    optimizer: Optimizer = EightBit(groups, **settings)
    return optimizer


def coupled_decay(step: Step, group: Group, p: torch.Tensor) -> None:
    """Adds the decay to the gradient, as Adam does."""
    if group["weight_decay"]:
        p.grad = torch.add(p.grad, p, alpha=group["weight_decay"])  # type: ignore[arg-type]
    step({**group, "weight_decay": 0.0})


def scale_to_norm(step: Step, group: Group, p: torch.Tensor) -> None:
    """Scales Adam's update to the norm of the parameter, as LAMB does (arXiv 1904.00962v5, algorithm 2)."""
    weights, p.data = p.data, torch.zeros_like(p.data)
    step({**group, "weight_decay": 0.0, "lr": 1.0})
    update, p.data = p.data.neg(), weights
    move(p, update, group["lr"], group["weight_decay"])


def gradient_scaled_to_norm(trust_coefficient: float) -> Rule:
    """Returns LARS' rule: scales gradient and decay to a share of the matrix's norm (arXiv 1708.03888, alg. 1)."""

    def rule(step: Step, group: Group, p: torch.Tensor) -> None:
        decay = group["weight_decay"]
        if p.ndim > 1:
            assert p.grad is not None
            size = p.norm()
            length = p.grad.norm() + decay * size
            moves = (length > 0) & (size > 0)
            ratio = torch.where(moves, trust_coefficient * size / length, torch.ones_like(size))
            p.grad = p.grad.add(p, alpha=decay).mul_(ratio)
            group = {**group, "weight_decay": 0.0}
        step(group)

    return rule
