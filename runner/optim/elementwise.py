"""Optimizers that update each weight by itself, or each tensor by its norm: torch's, our lamb, lars, lion, stable_adamw.

Each is a function of parameter groups and its own settings, whose defaults are in `conf`; `@optimizer()` makes the
groups. pytorch_optimizer takes seconds to import, so it is imported only when used.
"""

import torch
from torch.optim import Optimizer

from tiryns.runner.optim.algorithms.quantized import (
    coupled_decay,
    eight_bit,
    gradient_scaled_to_norm,
    refuse_options,
    scale_to_norm,
)
from tiryns.runner.optim.algorithms.trust_ratio import Lamb
from tiryns.runner.optim.groups import Groups
from tiryns.runner.optim.shared_settings import Pair, optimizer


@optimizer(decoupled=True)
def adafactor(groups: Groups, beta2_decay: float, eps: Pair, d: float) -> Optimizer:
    """torch's Adafactor: unlike other versions it follows the given rate, capped at 1/sqrt(step)."""
    return torch.optim.Adafactor(groups, beta2_decay=beta2_decay, eps=eps, d=d)


@optimizer()
def adagrad(groups: Groups, quantized: bool, initial_accumulator_value: float, eps: float) -> Optimizer:
    """torch's Adagrad, or its 8-bit variant, whose sum starts from 0."""
    if quantized:
        refuse_options("adagrad", initial_accumulator_value=initial_accumulator_value)
        return eight_bit("Adagrad8bit", groups, eps=eps)
    return torch.optim.Adagrad(groups, initial_accumulator_value=initial_accumulator_value, eps=eps)


@optimizer()
def adam(groups: Groups, quantized: bool, betas: Pair, eps: float, fused: bool) -> Optimizer:
    """torch's Adam, or its 8-bit variant."""
    if quantized:
        return eight_bit("Adam8bit", groups, coupled_decay, betas=betas, eps=eps)
    return torch.optim.Adam(groups, betas=betas, eps=eps, fused=fused and can_fuse(groups))


@optimizer(decoupled=True)
def adamw(groups: Groups, quantized: bool, betas: Pair, eps: float, fused: bool) -> Optimizer:
    """torch's AdamW, or its 8-bit variant."""
    if quantized:
        return eight_bit("AdamW8bit", groups, betas=betas, eps=eps)
    return torch.optim.AdamW(groups, betas=betas, eps=eps, fused=fused and can_fuse(groups))


@optimizer()
def lamb(groups: Groups, quantized: bool, betas: Pair, eps: float) -> Optimizer:
    """LAMB as in the paper, or the same with moments in 8 bits."""
    if quantized:
        return eight_bit("Adam8bit", groups, scale_to_norm, betas=betas, eps=eps)
    return Lamb(groups, betas=betas, eps=eps)


@optimizer()
def lars(
    groups: Groups, quantized: bool, momentum: float, trust_coefficient: float, nesterov: bool
) -> Optimizer:
    """pytorch_optimizer's LARS, or an 8-bit variant; both with momentum."""
    _need_momentum("lars", momentum)
    if quantized:
        refuse_options("lars", nesterov=nesterov)
        rule = gradient_scaled_to_norm(trust_coefficient)
        return eight_bit("SGD8bit", groups, rule, lr=groups[0]["lr"], momentum=momentum)
    from tiryns.runner.optim.algorithms.adapted import LoopLARS

    return LoopLARS(groups, momentum=momentum, trust_coefficient=trust_coefficient, nesterov=nesterov)


@optimizer(decoupled=True)
def lion(groups: Groups, quantized: bool, betas: Pair) -> Optimizer:
    """pytorch_optimizer's Lion, or the 8-bit variant of bitsandbytes."""
    if quantized:
        return eight_bit("Lion8bit", groups, betas=betas)
    from pytorch_optimizer import Lion

    return Lion(groups, betas=betas)


@optimizer()
def rmsprop(groups: Groups, quantized: bool, alpha: float, eps: float, momentum: float) -> Optimizer:
    """torch's RMSprop, or its 8-bit variant."""
    if quantized:
        refuse_options("rmsprop", momentum=momentum)
        return eight_bit("RMSprop8bit", groups, alpha=alpha, eps=eps)
    instance = torch.optim.RMSprop(groups, alpha=alpha, eps=eps, momentum=momentum)
    instance.register_load_state_dict_post_hook(_begin_momentum)
    return instance


@optimizer()
def sgd(groups: Groups, quantized: bool, momentum: float, nesterov: bool) -> Optimizer:
    """torch's SGD, or its 8-bit variant, which needs momentum."""
    if quantized:
        _need_momentum("sgd with quantized=true", momentum)
        refuse_options("sgd", nesterov=nesterov)
        return eight_bit("SGD8bit", groups, lr=groups[0]["lr"], momentum=momentum)
    return torch.optim.SGD(groups, momentum=momentum, nesterov=nesterov)


@optimizer(decoupled=True)
def stable_adamw(groups: Groups, betas: Pair, eps: float) -> Optimizer:
    """pytorch_optimizer's StableAdamW."""
    from tiryns.runner.optim.algorithms.adapted import LoopStableAdamW

    return LoopStableAdamW(groups, betas=betas, eps=eps)


def can_fuse(groups: Groups) -> bool:
    """Whether torch has fused kernels for these parameters."""
    parameters = [p for group in groups for p in group["params"]]
    return all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in parameters)


def _begin_momentum(optimizer: Optimizer) -> None:
    """Gives state that was saved without momentum its buffer, which torch makes in a first step alone."""
    for group in optimizer.param_groups:
        for p in group["params"] if group["momentum"] else ():
            if state := optimizer.state.get(p):
                state.setdefault("momentum_buffer", torch.zeros_like(p))


def _need_momentum(name: str, momentum: float) -> None:
    if momentum <= 0:
        raise ValueError(f"{name} needs momentum above 0, got {momentum}; 0.9 is usual")
