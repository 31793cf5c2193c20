"""Optimizers that treat each weight by itself, or each tensor by its norm: torch's, our lamb, lars, lion.

Each function takes the model (or its parameters), the settings all optimizers share, and its own.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.optim import Optimizer

from iolaus.runner.optim.groups import parameter_groups
from iolaus.runner.optim.quantized import eight_bit, refuse_options, refuse_quantized
from iolaus.runner.optim.roles import ParamsLike
from iolaus.runner.optim.state import own_settings
from iolaus.runner.optim.trust_ratio import Lamb

Overrides = Sequence[Mapping[str, Any]]
Groups = list[dict[str, Any]]


def pair(name: str, values: Sequence[float]) -> tuple[float, float]:
    """Two numbers; raises ValueError for any other count."""
    if len(values) != 2:
        raise ValueError(f"{name} must be two numbers, got {list(values)}")
    return float(values[0]), float(values[1])


def can_fuse(groups: Groups) -> bool:
    """Whether torch has fused kernels for these parameters."""
    parameters = [p for group in groups for p in group["params"]]
    return all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in parameters)


def adafactor(
    model: ParamsLike,
    lr: float,
    weight_decay: float,
    decay_embeddings: bool,
    layer_decay: float,
    overrides: Overrides,
    quantized: bool,
    beta2_decay: float,
    eps: Sequence[float],
    d: float,
) -> Optimizer:
    """torch's Adafactor: unlike others it follows the given rate, cut to 1/sqrt(step)."""
    refuse_quantized("adafactor", quantized)
    groups = parameter_groups(model, lr, weight_decay, decay_embeddings, layer_decay, overrides)
    made = torch.optim.Adafactor(groups, beta2_decay=beta2_decay, eps=pair("eps", eps), d=d)
    return own_settings(made, "adafactor")


def adagrad(
    model: ParamsLike,
    lr: float,
    weight_decay: float,
    decay_embeddings: bool,
    layer_decay: float,
    overrides: Overrides,
    quantized: bool,
    initial_accumulator_value: float,
    eps: float,
) -> Optimizer:
    """torch's Adagrad, or its 8-bit variant, whose sum starts from 0."""
    groups = parameter_groups(model, lr, weight_decay, decay_embeddings, layer_decay, overrides)
    if quantized:
        refuse_options("adagrad", initial_accumulator_value=initial_accumulator_value)
        return own_settings(eight_bit("adagrad", groups, eps=eps), "adagrad 8-bit")
    made = torch.optim.Adagrad(groups, initial_accumulator_value=initial_accumulator_value, eps=eps)
    return own_settings(made, "adagrad")


def adam(
    model: ParamsLike,
    lr: float,
    weight_decay: float,
    decay_embeddings: bool,
    layer_decay: float,
    overrides: Overrides,
    quantized: bool,
    betas: Sequence[float],
    eps: float,
    fused: bool,
) -> Optimizer:
    """torch's Adam, or its 8-bit variant."""
    groups = parameter_groups(model, lr, weight_decay, decay_embeddings, layer_decay, overrides)
    if quantized:
        return own_settings(eight_bit("adam", groups, betas=pair("betas", betas), eps=eps), "adam 8-bit")
    made = torch.optim.Adam(groups, betas=pair("betas", betas), eps=eps, fused=fused and can_fuse(groups))
    return own_settings(made, "adam")


def adamw(
    model: ParamsLike,
    lr: float,
    weight_decay: float,
    decay_embeddings: bool,
    layer_decay: float,
    overrides: Overrides,
    quantized: bool,
    betas: Sequence[float],
    eps: float,
    fused: bool,
) -> Optimizer:
    """torch's AdamW, or its 8-bit variant."""
    groups = parameter_groups(model, lr, weight_decay, decay_embeddings, layer_decay, overrides)
    if quantized:
        return own_settings(eight_bit("adamw", groups, betas=pair("betas", betas), eps=eps), "adamw 8-bit")
    made = torch.optim.AdamW(groups, betas=pair("betas", betas), eps=eps, fused=fused and can_fuse(groups))
    return own_settings(made, "adamw")


def lamb(
    model: ParamsLike,
    lr: float,
    weight_decay: float,
    decay_embeddings: bool,
    layer_decay: float,
    overrides: Overrides,
    quantized: bool,
    betas: Sequence[float],
    eps: float,
) -> Optimizer:
    """LAMB as the paper has it, or the same over moments in 8 bits."""
    groups = parameter_groups(model, lr, weight_decay, decay_embeddings, layer_decay, overrides)
    if quantized:
        return own_settings(eight_bit("lamb", groups, betas=pair("betas", betas), eps=eps), "lamb 8-bit")
    return own_settings(Lamb(groups, betas=pair("betas", betas), eps=eps), "lamb")


def lars(
    model: ParamsLike,
    lr: float,
    weight_decay: float,
    decay_embeddings: bool,
    layer_decay: float,
    overrides: Overrides,
    quantized: bool,
    momentum: float,
    trust_coefficient: float,
    nesterov: bool,
) -> Optimizer:
    """pytorch_optimizer's LARS, or an 8-bit variant; both with momentum."""
    _need_momentum("lars", momentum)
    groups = parameter_groups(model, lr, weight_decay, decay_embeddings, layer_decay, overrides)
    if quantized:
        refuse_options("lars", nesterov=nesterov)
        made = eight_bit("lars", groups, trust_coefficient, lr=lr, momentum=momentum)
        return own_settings(made, "lars 8-bit")
    from pytorch_optimizer import LARS

    made = LARS(groups, momentum=momentum, trust_coefficient=trust_coefficient, nesterov=nesterov)
    return own_settings(made, "lars")


def lion(
    model: ParamsLike,
    lr: float,
    weight_decay: float,
    decay_embeddings: bool,
    layer_decay: float,
    overrides: Overrides,
    quantized: bool,
    betas: Sequence[float],
) -> Optimizer:
    """pytorch_optimizer's Lion, or the 8-bit variant of bitsandbytes."""
    groups = parameter_groups(model, lr, weight_decay, decay_embeddings, layer_decay, overrides)
    if quantized:
        return own_settings(eight_bit("lion", groups, betas=pair("betas", betas)), "lion 8-bit")
    from pytorch_optimizer import Lion

    return own_settings(Lion(groups, betas=pair("betas", betas)), "lion")


def rmsprop(
    model: ParamsLike,
    lr: float,
    weight_decay: float,
    decay_embeddings: bool,
    layer_decay: float,
    overrides: Overrides,
    quantized: bool,
    alpha: float,
    eps: float,
    momentum: float,
) -> Optimizer:
    """torch's RMSprop, or its 8-bit variant."""
    groups = parameter_groups(model, lr, weight_decay, decay_embeddings, layer_decay, overrides)
    if quantized:
        refuse_options("rmsprop", momentum=momentum)
        made = eight_bit("rmsprop", groups, alpha=alpha, eps=eps)
        return own_settings(made, "rmsprop 8-bit")
    return own_settings(torch.optim.RMSprop(groups, alpha=alpha, eps=eps, momentum=momentum), "rmsprop")


def sgd(
    model: ParamsLike,
    lr: float,
    weight_decay: float,
    decay_embeddings: bool,
    layer_decay: float,
    overrides: Overrides,
    quantized: bool,
    momentum: float,
    nesterov: bool,
) -> Optimizer:
    """torch's SGD, or its 8-bit variant, which needs momentum."""
    groups = parameter_groups(model, lr, weight_decay, decay_embeddings, layer_decay, overrides)
    if quantized:
        _need_momentum("sgd with quantized=true", momentum)
        refuse_options("sgd", nesterov=nesterov)
        made = eight_bit("sgd", groups, lr=lr, momentum=momentum)
        return own_settings(made, "sgd 8-bit")
    return own_settings(torch.optim.SGD(groups, momentum=momentum, nesterov=nesterov), "sgd")


def _need_momentum(name: str, momentum: float) -> None:
    if momentum <= 0:
        raise ValueError(f"{name} needs momentum above 0, got {momentum}; 0.9 is usual")
