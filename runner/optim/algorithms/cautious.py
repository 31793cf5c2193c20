"""Cautious weight decay (arXiv 2510.12402) around any optimizer whose decay is decoupled.

With u the update without decay, p <- p - lr * u - lr * weight_decay * p where u * p >= 0.
"""

import torch
from torch import Tensor
from torch.optim import Optimizer

from tiryns.runner.optim.groups import Group


class CautiousDecay:
    """Hooks around an optimizer's step, which then runs without decay.

    For the length of a step it keeps a copy of the weights that decay; it has no state between steps. An optimizer with
    a method `damping(parameter)` divides the rate of that parameter by it, and so its decay.

    Example:
        >>> weight = torch.nn.Parameter(torch.tensor([2.0, -2.0]))
        >>> optimizer = torch.optim.SGD([{"params": [weight], "weight_decay": 0.5}], lr=0.1)
        >>> _ = CautiousDecay(optimizer)
        >>> weight.sum().backward()
        >>> optimizer.step()
        >>> weight.detach()  # the gradient shrinks the first alone
        tensor([ 1.8000, -2.1000])
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.before: list[tuple[Group, float, list[Tensor]]] = []
        optimizer.register_step_pre_hook(self._take_decay)
        optimizer.register_step_post_hook(self._decay)

    @torch.no_grad()
    def _take_decay(self, optimizer: Optimizer, *_: object) -> None:
        for group in optimizer.param_groups:
            if group["weight_decay"]:
                copies = [p.detach().clone() for p in group["params"]]
                self.before.append((group, group["weight_decay"], copies))
                group["weight_decay"] = 0.0

    @torch.no_grad()
    def _decay(self, optimizer: Optimizer, *_: object) -> None:
        damping = getattr(optimizer, "damping", lambda parameter: 1.0)
        for group, weight_decay, copies in self.before:
            group["weight_decay"] = weight_decay
            for p, old in zip(group["params"], copies, strict=True):
                if p.grad is not None:
                    agrees = (old - p) * old >= 0
                    p.sub_(old * agrees * (group["lr"] * weight_decay / damping(p)))
        self.before.clear()
