"""Parameters that finetuning leaves as they are: by names, or the embeddings and the first layers."""

import fnmatch
import re
from collections.abc import Sequence

from torch import nn

from tiryns.conf.values import suggest
from tiryns.runner import log
from tiryns.runner.optim.roles import parts


def freeze_parameters(model: nn.Module, patterns: Sequence[str], layers: int | None = None) -> None:
    """Freezes the parameters whose names match, and with `layers` the embeddings and the first so many layers.

    Patterns match whole names, `*` for anything; `re:...` is a regular expression anywhere in them. Raises ValueError
    for a pattern that matches nothing, and for more layers than there are.
    """
    names = dict(model.named_parameters())
    chosen = set() if layers is None else _bottom(model, layers)
    for pattern in patterns:
        regular = pattern[3:] if pattern.startswith("re:") else rf"\A{fnmatch.translate(pattern)}"
        matching = [name for name in names if re.search(regular, name)]
        if not matching:
            raise ValueError(
                f"module.freeze: the pattern {pattern!r} matches no parameter; they have names such as "
                f"{', '.join(list(names)[:3])}" + suggest(pattern, names)
            )
        chosen.update(matching)
    for name in chosen:
        names[name].requires_grad_(False)
    if chosen:
        frozen = sum(p.numel() for p in names.values() if not p.requires_grad)
        total = sum(p.numel() for p in names.values())
        log.info("%s of %s parameters are frozen", f"{frozen:,}", f"{total:,}")


def _bottom(model: nn.Module, layers: int) -> set[str]:
    """The trainable parameters before the layers, and of the first so many layers of each tower."""
    places = {name: (role, place) for name, (_, role, place) in parts(model).items()}
    towers: dict[str, int] = {}
    for _, (tower, layer, _) in places.values():
        if layer is not None:
            towers[tower] = max(towers.get(tower, 0), layer + 1)
    if not towers or layers > min(towers.values()):
        has = " and ".join(map(str, towers.values())) or "no list of"
        raise ValueError(
            f"module.freeze_layers={layers}: the model has {has} layers; the embeddings and at most "
            f"{min(towers.values(), default=0)} layers can be frozen"
        )
    return {
        name
        for name, (role, (_, layer, below)) in places.items()
        if (layer < layers if layer is not None else below or role == "embedding")
    }
