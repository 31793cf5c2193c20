"""Parameter groups: weight decay by role, per-layer rates, and overrides by name; or groups as torch takes them.

Hidden matrices, projections and heads decay; settings decide whether embeddings, norms and vectors do (for the roles see
`runner/optim/roles.py`). A tied parameter counts once. A given group's settings replace the optimizer's settings.
"""

import difflib
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import torch
from torch import nn

from tiryns.conf.values import Settings
from tiryns.runner.optim.roles import ParamsLike, Part, depths, names_of_pattern, parts

Group = dict[str, Any]
"""A parameter group as in torch: its settings, its parameters, its name and the parameters' names."""

Groups = list[Group]

ENTRIES = ("params", "param_names", "name", "initial_lr", "use_muon")
"""Entries of a group other than the settings of its optimizer."""

ORDER = ("matrices", "decay", "embeddings", "no_decay")
"""Prefixes of the names of groups, in their order."""

GROUPS = {"matrix": "decay", "projection": "decay", "head": "decay", "embedding": "embeddings"}
"""The group of each role. Other roles are in `no_decay`; with `matrices_apart`, hidden matrices are in `matrices`."""


def parameter_groups(
    model: ParamsLike,
    lr: float,
    weight_decay: float,
    decay_embeddings: bool,
    layer_decay: float,
    overrides: Sequence[Settings],
    matrices_apart: bool = False,
    lr_of_others: float | None = None,
    decay_vectors: bool = False,
    parametrization: str = "standard",
    base_width: int = 128,
) -> Groups:
    """Returns groups for torch.optim: dicts of name, params, param_names, lr and weight_decay.

    With `matrices_apart` two-dimensional hidden matrices form their own groups; `lr_of_others` is then the rate of
    all other parameters. A `parametrization` scales rates by the model's width over `base_width` (`runner.optim.width`).
    If groups of torch (dicts) are given instead of a model, they are kept (`groups_as_given`).

    Raises:
        ValueError: nothing is trainable, a pattern matches nothing, layer_decay is out of (0, 1], or groups are given
            with settings that need a model.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8))
        >>> groups = parameter_groups(model, 0.1, 0.01, False, 1.0, [])
        >>> [(group["name"], group["param_names"], group["weight_decay"]) for group in groups]
        [('decay', ['0.weight'], 0.01), ('no_decay', ['0.bias', '1.weight', '1.bias'], 0.0)]
    """
    if lr < 0 or weight_decay < 0:
        raise ValueError(f"lr={lr} and weight_decay={weight_decay} must not be negative.")
    by_width = parametrization != "standard"
    if not isinstance(model, nn.Module):
        model = list(model)
        if any(isinstance(item, Mapping) for item in model):
            if decay_embeddings or decay_vectors or layer_decay != 1.0 or overrides or by_width:
                raise ValueError(
                    "decay_embeddings, decay_vectors, layer_decay, overrides and parametrization need a model, "
                    "not groups."
                )
            return groups_as_given(model, lr, weight_decay, matrices_apart, lr_of_others)
    by_name = parts(model)
    if not by_name:
        raise ValueError("The model has no trainable parameter: everything is frozen.")
    if not 0.0 < layer_decay <= 1.0:
        raise ValueError(f"layer_decay={layer_decay} must lie in (0, 1]; 1.0 gives all layers the same rate.")
    scales = dict.fromkeys(by_name, (1.0, ""))
    if layer_decay != 1.0:
        scales = _scales_by_depth(by_name, layer_decay)
    if by_width:
        from tiryns.runner.optim.width import scale_by_width

        scales = scale_by_width(scales, model, by_name, parametrization, base_width)
    matching = [(override, _matches(override, by_name)) for override in overrides]
    decays = {"embeddings": decay_embeddings, "no_decay": decay_vectors}
    groups: dict[tuple[str, float, float], Group] = {}
    for name, (parameter, role, _) in by_name.items():
        hidden = matrices_apart and role == "matrix" and parameter.ndim == 2
        rate, decay = lr if hidden or lr_of_others is None else lr_of_others, weight_decay
        group = "matrices" if hidden else GROUPS.get(role, "no_decay")
        if not decays.get(group, True):
            decay = 0.0
        scale, label = scales[name]
        rate = usual = rate * scale
        for override, names in matching:
            if name in names:
                own_lr, factor, own_decay = (override.get(key) for key in ("lr", "lr_scale", "weight_decay"))
                rate = own_lr if own_lr is not None else rate if factor is None else usual * factor
                decay = decay if own_decay is None else own_decay
                label += f"/{override['pattern']}"
        new = {"name": group + label, "params": [], "param_names": [], "lr": rate, "weight_decay": decay}
        entry = groups.setdefault((group + label, rate, decay), new)
        entry["params"].append(parameter)
        entry["param_names"].append(name)
    return sorted(groups.values(), key=lambda group: ORDER.index(group["name"].split("/")[0]))


def holds_hidden_matrices(group: Group) -> bool:
    """Whether a group is one of hidden matrices, made by `matrices_apart`."""
    return bool(group["name"].split("/")[0] == "matrices")


def _scales_by_depth(by_name: Mapping[str, Part], layer_decay: float) -> dict[str, tuple[float, str]]:
    """Returns each parameter's layer_decay ** n and label (ELECTRA, arXiv 2003.10555); n counts layers from its own on.

    Parameters before a tower's layers, and all embeddings, count as one more layer; n is 0 for those after the layers.
    """
    if not (layers := depths(by_name.values())):
        raise ValueError(f"layer_decay={layer_decay}: the model has no list of layers to count.")
    scales = {}
    for name, (_, role, (tower, layer, below)) in by_name.items():
        if layer is not None:
            scales[name] = (layer_decay ** (layers[tower] - layer), f"/layer{layer}")
        elif below or role == "embedding":
            depth = layers.get(tower, max(layers.values()))
            scales[name] = (layer_decay ** (depth + 1), "/bottom")
        else:
            scales[name] = (1.0, "/top")
    return scales


def _matches(override: Settings, by_name: Mapping[str, Part]) -> set[str]:
    pattern, settings = override.get("pattern"), ("lr", "lr_scale", "weight_decay")
    values = {name: override[name] for name in settings if override.get(name) is not None}
    unknown, both = {*override} - {"pattern", *settings}, {"lr", "lr_scale"} <= values.keys()
    if not pattern or not values or unknown or both or min(values.values()) < 0:
        raise ValueError(
            f"overrides: expected a pattern of parameter names, such as '*.layer.0.*', with lr (or lr_scale), "
            f"weight_decay or both, each 0 or more, not {dict(override)}"
        )
    names = set(names_of_pattern(pattern, by_name))
    if not names:
        close = difflib.get_close_matches(pattern, list(by_name), n=3, cutoff=0.3) or list(by_name)[:3]
        raise ValueError(
            f"overrides: pattern '{pattern}' matches no trainable parameter. Patterns match whole names "
            f"('*' for anything; 're:' for a regular expression anywhere in it), such as {', '.join(close)}."
        )
    return names


def groups_as_given(
    groups: Sequence[Group], lr: float, weight_decay: float, matrices_apart: bool, lr_of_others: float | None
) -> Groups:
    """Returns the given groups with names, and with `lr` and `weight_decay` if they lack these.

    A group's own settings apply to all of its parameters, biases too. With `matrices_apart` a group becomes two groups:
    its hidden matrices (see `runner.optim.roles`), and its other parameters with the rate `lr_of_others`. If a group
    sets `use_muon`, all its parameters belong to the former (true) or to the latter (false).
    """
    new_groups: Groups = []
    named_parameters = [_named_parameters(group, number) for number, group in enumerate(groups)]
    role = {id(part.parameter): part.role for part in parts([*chain(*named_parameters)]).values()}
    for number, group in enumerate(groups):
        settings = {name: v for name, v in group.items() if name not in ("params", "param_names", "name")}
        halves: dict[bool, list[tuple[str, torch.Tensor]]] = {}
        for name, parameter in named_parameters[number]:
            hidden = matrices_apart and parameter.ndim == 2 and role.get(id(parameter)) == "matrix"
            halves.setdefault(settings.get("use_muon", hidden), []).append((name, parameter))
        label = group.get("name", f"group{number}")
        rest = f"others/{label}" if matrices_apart and label.split("/")[0] == "matrices" else label
        for hidden, members in sorted(halves.items(), reverse=True) or [(False, [])]:
            new_groups.append(
                {
                    "name": f"matrices/{label}" if hidden else rest,
                    "params": [parameter for _, parameter in members],
                    "param_names": [name for name, _ in members],
                    "lr": lr if hidden or lr_of_others is None else lr_of_others,
                    "weight_decay": weight_decay,
                    **settings,
                }
            )
    return new_groups


def _named_parameters(group: Group, number: int) -> list[tuple[str, torch.Tensor]]:
    """Returns the parameters of a group with their names, which are by default their indices."""
    if "params" not in group:
        raise ValueError(f"group {number} has no 'params'; it has {', '.join(group)}")
    params = [group["params"]] if isinstance(group["params"], torch.Tensor) else list(group["params"])
    names = group.get("param_names") or [f"group{number}.parameter{i}" for i in range(len(params))]
    pairs = [p if isinstance(p, tuple) else (name, p) for name, p in zip(names, params, strict=True)]
    for name, parameter in pairs:
        if not isinstance(parameter, torch.Tensor):
            raise ValueError(f"group {number} holds a {type(parameter).__name__} as {name}: give parameters")
    return pairs


def parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Returns all parameters of an optimizer in the order of its groups."""
    return [p for group in optimizer.param_groups for p in group["params"]]


def groups_table(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """Returns one row per group: name, example (a parameter), tensors, parameters, lr (base rate), weight_decay."""
    return [
        {
            "name": group.get("name", str(number)),
            "example": next(iter(group.get("param_names", [])), ""),
            "tensors": len(group["params"]),
            "parameters": sum(p.numel() for p in group["params"]),
            "lr": group.get("initial_lr", group["lr"]),
            "weight_decay": group.get("weight_decay", 0.0),
        }
        for number, group in enumerate(optimizer.param_groups)
    ]
