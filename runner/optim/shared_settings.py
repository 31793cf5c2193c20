"""The settings that all optimizers share, handled once: `@optimizer()` turns them into parameter groups."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any

from torch.optim import Optimizer

from iolaus.runner.optim.groups import parameter_groups
from iolaus.runner.optim.state import own_settings

Pair = tuple[float, float]

SHARED = [*signature(parameter_groups).parameters.values()][:6]
"""The model, and the settings that make its parameter groups: one field each in `conf`'s `Optimizer`."""

QUANTIZED = Parameter("quantized", Parameter.POSITIONAL_OR_KEYWORD, annotation=bool)


def optimizer(
    matrices_apart: bool = False, lr_of_others: str | None = None
) -> Callable[[Callable[..., Optimizer]], Callable[..., Optimizer]]:
    """Makes an optimizer over models of a function that takes parameter groups and settings of its own.

    The result takes a model (or parameters, or groups), the shared settings and the function's own. The function gets
    groups with rates and decays, and `quantized` if it has a parameter of that name; without one, `quantized=true` is an
    error. A setting that it annotates as `Pair` may be any sequence of two numbers.

    Args:
        matrices_apart: Puts hidden matrices into groups of their own (`holds_hidden_matrices`).
        lr_of_others: Names the function's setting that is the peak rate of everything but hidden matrices.

    Example:
        >>> import torch
        >>> @optimizer()
        ... def nadam(groups: list[dict[str, Any]], momentum_decay: float) -> Optimizer:
        ...     return torch.optim.NAdam(groups, momentum_decay=momentum_decay)
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8))
        >>> made = nadam(model, 1e-3, 0.1, False, 1.0, [], quantized=False, momentum_decay=4e-3)
        >>> [(group["name"], group["weight_decay"]) for group in made.param_groups]
        [('decay', 0.1), ('no_decay', 0.0)]
    """

    def declare(function: Callable[..., Optimizer]) -> Callable[..., Optimizer]:
        name, own = function.__name__, [*signature(function).parameters.values()][1:]
        has_8_bit = any(setting.name == "quantized" for setting in own)
        taken = Signature([*SHARED, QUANTIZED, *(setting for setting in own if setting.name != "quantized")])

        @wraps(function)
        def make(*arguments: Any, **keywords: Any) -> Optimizer:
            given = taken.bind(*arguments, **keywords).arguments
            if given["quantized"] and not has_8_bit:
                from iolaus.runner.optim.table import with_8_bit_variant

                known = ", ".join(with_8_bit_variant())
                raise ValueError(
                    f"{name} has no 8-bit variant; set quantized=false, or choose one of {known}"
                )
            groups = parameter_groups(
                **{setting.name: given[setting.name] for setting in SHARED},
                matrices_apart=matrices_apart,
                lr_of_others=given[lr_of_others] if lr_of_others else None,
            )
            made = function(
                groups, **{setting.name: _paired(setting, given[setting.name]) for setting in own}
            )
            return own_settings(made, f"{name} 8-bit" if given["quantized"] else name)

        make.__signature__ = taken  # type: ignore[attr-defined]
        return make

    return declare


def _paired(setting: Parameter, value: Any) -> Any:
    """The value; of a setting annotated as `Pair`, a tuple of two numbers."""
    if setting.annotation != Pair:
        return value
    if len(value) != 2:
        raise ValueError(f"{setting.name} must be two numbers, got {list(value)}")
    return float(value[0]), float(value[1])
