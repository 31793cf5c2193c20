"""All optimizers by name."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn
from torch.optim import Optimizer

from iolaus.conf.values import suggest
from iolaus.runner.optim.elementwise import adafactor, adagrad, adam, adamw, lamb, lars, lion, rmsprop, sgd
from iolaus.runner.optim.given_groups import check_entries
from iolaus.runner.optim.matrixwise import galore, muon, shampoo, soap, sophiah, splus
from iolaus.runner.optim.roles import ParamsLike

OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {
    function.__name__: function
    for function in (
        adafactor,
        adagrad,
        adam,
        adamw,
        galore,
        lamb,
        lars,
        lion,
        muon,
        rmsprop,
        sgd,
        shampoo,
        soap,
        sophiah,
        splus,
    )
}
"""The function that makes each optimizer, under its name in the config."""


def get_optimizer(
    optimizer_name: str,
    params: ParamsLike,
    optimizer_kwargs: Mapping[str, Any] | None = None,
    quantized: bool = False,
) -> Optimizer:
    """An optimizer by name, over a model, its parameters or groups of them.

    Settings left out have the defaults of `conf`. In a model, biases, norms and (unless `decay_embeddings`) embeddings do
    not decay. Groups are dicts as torch takes them: what one says of itself (`lr`, `weight_decay`, ...) goes before
    `optimizer_kwargs` and holds for all of its parameters.

    On purpose unlike bertblocks': the caller's keywords stay as they are, an unknown one is an error, and so is an 8-bit
    variant that does not exist, in place of full precision with a warning.

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

    Raises ValueError for an unknown name, an unknown keyword, or an 8-bit variant that does not exist, and
    ImportError, naming the extra, where the library of the 8-bit variants is missing.
    """
    if optimizer_name not in OPTIMIZERS:
        raise ValueError(
            f"optimizer '{optimizer_name}' is unknown; choose one of {', '.join(OPTIMIZERS)}"
            + suggest(optimizer_name, OPTIMIZERS)
        )
    settings = {**defaults(optimizer_name), "quantized": quantized}
    for name, value in (optimizer_kwargs or {}).items():
        if name not in settings:
            raise ValueError(
                f"optimizer {optimizer_name} has no setting '{name}'; it has {', '.join(settings)}"
                + suggest(name, settings)
            )
        settings[name] = value
    if not isinstance(params, nn.Module):
        params = list(params)
    made = OPTIMIZERS[optimizer_name](params, **settings)
    given = [] if isinstance(params, nn.Module) else [item for item in params if isinstance(item, Mapping)]
    check_entries(given, [*dict.fromkeys((*settings, *made.defaults))], optimizer_name)
    return made


def defaults(optimizer_name: str) -> dict[str, Any]:
    """The settings of an optimizer with the values they have in `conf`."""
    import iolaus.conf  # noqa: F401  registers the options
    from iolaus.conf.registry import OPTIONS

    settings = dataclasses.asdict(OPTIONS["optimizer"][optimizer_name]())
    del settings["_target_"]
    return settings
