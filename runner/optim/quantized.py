"""8-bit variants by bitsandbytes: blocks of 256 values of state that share a scale (arXiv 2110.02861).

Its kernels know neither Adam's coupled decay nor the norms of LAMB and LARS (its LAMB8bit is AdamW, its
LARS8bit is SGD). These three are made here of its Adam and SGD, which keep the state; the others are its own. So 8-bit
LAMB is the paper's, over Adam's moments in 8 bits.
"""

import logging
from importlib import import_module
from typing import Any

import torch
from torch.optim import Optimizer

from iolaus.runner.optim.trust_ratio import move

CLASSES = {
    "adagrad": "Adagrad8bit",
    "adam": "Adam8bit",
    "adamw": "AdamW8bit",
    "lamb": "Adam8bit",
    "lars": "SGD8bit",
    "lion": "Lion8bit",
    "rmsprop": "RMSprop8bit",
    "sgd": "SGD8bit",
}
"""The class of bitsandbytes that keeps the state of each."""


def refuse_quantized(name: str, quantized: bool) -> None:
    """Raises ValueError where 8-bit state is asked of an optimizer that has none."""
    if quantized:
        known = ", ".join(CLASSES)
        raise ValueError(f"{name} has no 8-bit variant; set quantized=false, or choose one of {known}")


def refuse_options(name: str, **options: Any) -> None:
    """Raises ValueError for an option that is set, but that the 8-bit variant would ignore."""
    for option, value in options.items():
        if value:
            raise ValueError(
                f"{name} with quantized=true does not know {option}={value}; leave it at its default"
            )


def eight_bit(
    name: str, groups: list[dict[str, Any]], trust_coefficient: float = 0.0, **settings: Any
) -> Optimizer:
    """The 8-bit variant of an optimizer; tensors of fewer than 4096 values keep 32 bits.

    Raises ImportError, naming the extra, where bitsandbytes is not installed.
    """
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # it warns of kernels that no optimizer uses
    try:
        library = import_module("bitsandbytes.optim")
    except ImportError as error:
        raise ImportError(
            f"{name} with quantized=true needs bitsandbytes: pip install 'iolaus[quantized]' ({error})"
        ) from error
    base = getattr(library, CLASSES[name])

    class EightBit(base):  # type: ignore[misc, valid-type]
        """Runs the load hooks, which bitsandbytes leaves out, and adds the rules that its kernels lack."""

        def load_state_dict(self, state_dict: dict[str, Any], move_to_device: bool = True) -> None:
            for hook in self._optimizer_load_state_dict_pre_hooks.values():
                state_dict = hook(self, state_dict) or state_dict
            super().load_state_dict(state_dict, move_to_device)

        def update_step(self, group: dict[str, Any], p: torch.Tensor, gindex: int, pindex: int) -> None:
            plain = {**group, "weight_decay": 0.0}
            if name == "lamb":
                update = self.direction({**plain, "lr": 1.0}, p, gindex, pindex)
                move(p, update, group["lr"], group["weight_decay"])
            elif name == "lars" and p.ndim > 1:
                p.grad = lars_gradient(p, group["weight_decay"], trust_coefficient)
                super().update_step(plain, p, gindex, pindex)
            elif name == "adam" and group["weight_decay"]:
                p.grad = torch.add(p.grad, p, alpha=group["weight_decay"])  # type: ignore[arg-type]
                super().update_step(plain, p, gindex, pindex)
            else:
                super().update_step(group, p, gindex, pindex)

        def direction(self, group: dict[str, Any], p: torch.Tensor, gindex: int, pindex: int) -> torch.Tensor:
            """What the update subtracts from a weight of zero at a rate of 1."""
            weights, p.data = p.data, torch.zeros_like(p.data)
            super().update_step(group, p, gindex, pindex)
            update, p.data = p.data.neg(), weights
            return update

    EightBit.__name__ = EightBit.__qualname__ = f"{name.capitalize()}8bit"
    optimizer: Optimizer = EightBit(groups, **settings)
    return optimizer


def lars_gradient(p: torch.Tensor, weight_decay: float, trust_coefficient: float) -> torch.Tensor:
    """The decayed gradient, scaled to trust_coefficient times the norm of p (arXiv 1708.03888, alg. 1)."""
    assert p.grad is not None
    size = p.norm()
    length = p.grad.norm() + weight_decay * size
    ratio = torch.where((length > 0) & (size > 0), trust_coefficient * size / length, torch.ones_like(size))
    return p.grad.add(p, alpha=weight_decay).mul_(ratio)
