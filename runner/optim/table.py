"""All optimizers by name."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from hydra.utils import get_object
from torch import nn
from torch.optim import Optimizer

import tiryns.conf  # noqa: F401  registers the options
from tiryns.conf.registry import OPTIONS
from tiryns.conf.values import check_choice, check_names
from tiryns.runner.optim.groups import ENTRIES
from tiryns.runner.optim.roles import ParamsLike

OPTIMIZERS: Mapping[str, type] = OPTIONS["optimizer"]
"""The dataclass of each optimizer under its name: the options of `conf`, and of installed packages."""


def get_optimizer(
    optimizer_name: str,
    params: ParamsLike,
    optimizer_kwargs: Mapping[str, Any] | None = None,
    quantized: bool = False,
) -> Optimizer:
    """Returns an optimizer by name, over a model, its parameters or groups of them.

    Settings left out have the defaults of `conf`. In a model, biases, norms and (unless `decay_embeddings`) embeddings do
    not decay. A group's own settings (`lr`, `weight_decay`, ...) take precedence over `optimizer_kwargs`, which stay
    unchanged, and apply to all of its parameters.

    Raises:
        ValueError: an unknown name, an unknown keyword, or an 8-bit variant that does not exist.
        ImportError: the library of the 8-bit variants is missing.

    Example:
        >>> from torch import nn
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8))
        >>> optimizer = get_optimizer(
        ...     "adamw",
        ...     [{"params": model[0].parameters(), "weight_decay": 0.1}, {"params": model[1].parameters()}],
        ...     {"lr": 1e-3, "weight_decay": 0.0},
        ... )
        >>> [(group["lr"], group["weight_decay"]) for group in optimizer.param_groups]
        [(0.001, 0.1), (0.001, 0.0)]
    """
    check_choice("optimizer", optimizer_name, OPTIMIZERS)
    settings = {**dataclasses.asdict(OPTIMIZERS[optimizer_name]()), "quantized": quantized}
    del settings["_target_"]
    check_names("optimizer", optimizer_kwargs or (), settings, f": {optimizer_name} has")
    params = params if isinstance(params, nn.Module) else list(params)
    optimizer = function_of(optimizer_name)(params, **{**settings, **(optimizer_kwargs or {})})
    allowed_names = [*dict.fromkeys((*settings, *optimizer.defaults, *ENTRIES))]
    for number, group in enumerate(() if isinstance(params, nn.Module) else params):
        names = group if isinstance(group, Mapping) else ()
        check_names(f"params[{number}]", names, allowed_names, f": a group of {optimizer_name} has")
    return optimizer


def function_of(optimizer_name: str) -> Callable[..., Optimizer]:
    """Returns the function that the option of an optimizer names as its `_target_`."""
    target: str = vars(OPTIMIZERS[optimizer_name])["_target_"]
    function: Callable[..., Optimizer] = get_object(
        f"tiryns.{target}" if target.startswith("runner.") else target
    )
    return function


def with_8_bit_variant() -> list[str]:
    """Returns the names of the optimizers whose functions have a parameter `quantized`."""
    signatures = {name: inspect.signature(inspect.unwrap(function_of(name))) for name in OPTIMIZERS}
    return [name for name, signature in signatures.items() if "quantized" in signature.parameters]
