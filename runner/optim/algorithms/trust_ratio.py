"""LAMB (You et al. 2020, arXiv 1904.00962v5, algorithm 2; its phi is the identity).

With r = m / (sqrt(v) + eps) from Adam's bias-corrected moments, a tensor x moves by lr times its own norm:

    x <- x - lr * ||x|| / ||r + lambda x|| * (r + lambda x), with a ratio of 1 where a norm is 0
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from tiryns.runner.optim.groups import Groups


class Lamb(Optimizer):
    """Adam's update, decayed and scaled to the norm of each tensor.

    Example:
        >>> weight = torch.nn.Parameter(torch.full((4,), 3.0))
        >>> weight.sum().backward()
        >>> Lamb([{"params": [weight], "lr": 0.5, "weight_decay": 0.0}], betas=(0.9, 0.999), eps=1e-6).step()
        >>> weight.detach()  # of norm 6, moved by a length of 3
        tensor([1.5000, 1.5000, 1.5000, 1.5000])
    """

    def __init__(self, groups: Groups, betas: tuple[float, float], eps: float) -> None:
        super().__init__(groups, {"betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        """Updates every parameter that has a gradient."""
        with torch.enable_grad():
            loss = None if closure is None else closure()
        for group in self.param_groups:
            (beta1, beta2), eps = group["betas"], group["eps"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state |= {"step": 0, "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
                state["step"] += 1
                m = state["exp_avg"].lerp_(p.grad, 1 - beta1) / (1 - beta1 ** state["step"])
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                v = state["exp_avg_sq"] / (1 - beta2 ** state["step"])
                move(p, m.div_(v.sqrt_().add_(eps)), group["lr"], group["weight_decay"])
        return loss


def move(p: Tensor, r: Tensor, lr: float, weight_decay: float) -> None:
    """Moves p by lr times its norm against r + weight_decay * p."""
    update = r.add(p, alpha=weight_decay)
    size, length = p.norm(), update.norm()
    ratio = torch.where((size > 0) & (length > 0), size / length, torch.ones_like(size))
    p.sub_(update.mul_(ratio * lr))
