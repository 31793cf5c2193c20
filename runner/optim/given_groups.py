"""Parameter groups as torch takes them: their own settings go before those of the optimizer."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import torch

from tiryns.conf.values import suggest
from tiryns.runner.optim.roles import parts

Groups = list[dict[str, Any]]
"""Parameter groups as torch has them, each with its name and the names of its parameters."""

ENTRIES = ("params", "param_names", "name", "initial_lr", "use_muon")
"""Entries of a group beside the settings of its optimizer."""


def groups_as_given(
    given: Sequence[Mapping[str, Any]],
    lr: float,
    weight_decay: float,
    matrices_apart: bool,
    lr_of_others: float | None,
) -> Groups:
    """The given groups with names, and with the rate and the decay where they have none.

    A group's own settings hold for all of its parameters, biases too. With `matrices_apart` a group becomes two: its
    hidden matrices (see `runner.optim.roles`) and the rest, whose rate is `lr_of_others`; `use_muon` of a group decides
    for all of it.
    """
    found: Groups = []
    named = [_named(group, number) for number, group in enumerate(given)]
    role = {id(part.parameter): part.role for part in parts([*chain(*named)]).values()}
    for number, group in enumerate(given):
        own = {name: value for name, value in group.items() if name not in ("params", "param_names", "name")}
        halves: dict[bool, list[tuple[str, torch.Tensor]]] = {}
        for name, parameter in named[number]:
            hidden = matrices_apart and parameter.ndim == 2 and role.get(id(parameter)) == "matrix"
            halves.setdefault(own.get("use_muon", hidden), []).append((name, parameter))
        label = group.get("name", f"group{number}")
        rest = f"others/{label}" if matrices_apart and label.split("/")[0] == "matrices" else label
        for hidden, members in sorted(halves.items(), reverse=True) or [(False, [])]:
            found.append(
                {
                    "name": f"matrices/{label}" if hidden else rest,
                    "params": [parameter for _, parameter in members],
                    "param_names": [name for name, _ in members],
                    "lr": lr if hidden or lr_of_others is None else lr_of_others,
                    "weight_decay": weight_decay,
                    **own,
                }
            )
    return found


def check_entries(given: Sequence[Any], known: Sequence[str], optimizer: str) -> None:
    """Raises ValueError for an entry of a group that is no setting of its optimizer."""
    for number, group in enumerate(given):
        for name in group:
            if name not in known and name not in ENTRIES:
                raise ValueError(
                    f"group {number} has '{name}', which is no setting of {optimizer}; there are: "
                    f"{', '.join(known)}" + suggest(name, known)
                )


def _named(group: Mapping[str, Any], number: int) -> list[tuple[str, torch.Tensor]]:
    """The parameters of a group with their names, or with their numbers for names."""
    if "params" not in group:
        raise ValueError(f"group {number} has no 'params'; it has {', '.join(group)}")
    params = [group["params"]] if isinstance(group["params"], torch.Tensor) else list(group["params"])
    names = group.get("param_names") or [f"group{number}.parameter{i}" for i in range(len(params))]
    named = [p if isinstance(p, tuple) else (name, p) for name, p in zip(names, params, strict=True)]
    for name, parameter in named:
        if not isinstance(parameter, torch.Tensor):
            raise ValueError(f"group {number} holds a {type(parameter).__name__} as {name}: give parameters")
    return named
