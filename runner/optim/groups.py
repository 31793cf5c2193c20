"""Parameter groups: what decays and what does not, per-layer rates, and overrides by name.

Every trainable parameter has one role, found from the module that owns it:

    norm        anything inside a normalisation layer
    vector      biases and everything else with fewer than two dimensions
    embedding   tables of embeddings, and parameters called like one (class tokens, learned positions)
    head        the matrix that turns hidden states into logits
    matrix      every other weight

Matrices and heads decay; norms and vectors never do; embeddings by choice. A tied parameter counts once.
"""

import difflib
import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

ParamsLike = nn.Module | Iterable[Any]
"""A module, or its parameters, or (name, parameter) pairs."""

HEADS = ("decoder", "lm_head", "classifier", "score", "qa_outputs", "out_proj_head")
LAYER = re.compile(r"^(.*?)\b(?:layers?|h|blocks?)\.(\d+)\.")
TOKENS = re.compile(r"embed|_token$|^(cls|mask|pos|class)_")


def roles(model: ParamsLike) -> dict[str, tuple[nn.Parameter, str]]:
    """Each trainable parameter with its role, under its name, in the model's order."""
    if not isinstance(model, nn.Module):
        return {name: (p, _role(name, p, None)) for name, p in _named(model)}
    owners = {
        f"{prefix}.{name}" if prefix else name: module
        for prefix, module in model.named_modules()
        for name, _ in module.named_parameters(recurse=False)
    }
    heads = {id(p) for head in _output_heads(model) for p in head.parameters(recurse=False)}
    found = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            role = _role(name, parameter, owners[name])
            role = "head" if role == "matrix" and id(parameter) in heads else role
            found[name.replace("_orig_mod.", "")] = (parameter, role)  # what torch.compile puts into names
    return found


def _role(name: str, parameter: torch.Tensor, owner: nn.Module | None) -> str:
    *path, leaf = name.split(".")
    kind = type(owner).__name__ if owner is not None else path[-1] if path else leaf
    if "norm" in kind.lower():
        return "norm"
    if isinstance(owner, nn.Embedding | nn.EmbeddingBag):
        return "embedding"
    if parameter.ndim < 2:
        return "vector"
    if TOKENS.search(leaf) or (owner is None and "embed" in name):
        return "embedding"
    return "head" if path and path[-1] in HEADS else "matrix"


def _output_heads(model: nn.Module) -> list[nn.Module]:
    """What Hugging Face models inside the model call their output embeddings."""
    heads = []
    for module in model.modules():
        get = getattr(module, "get_output_embeddings", None)
        head = get() if callable(get) else None
        if isinstance(head, nn.Module):
            heads.append(head)
    return heads


def _named(params: Iterable[Any]) -> Iterable[tuple[str, nn.Parameter]]:
    seen: set[int] = set()
    for number, item in enumerate(params):
        name, parameter = item if isinstance(item, tuple) else (f"parameter{number}", item)
        if not isinstance(parameter, torch.Tensor):
            raise ValueError(
                f"params[{number}] is a {type(parameter).__name__}; "
                "give a model, parameters or (name, parameter) pairs."
            )
        if parameter.requires_grad and id(parameter) not in seen:
            seen.add(id(parameter))
            yield name, parameter  # type: ignore[misc]


def parameter_groups(
    model: ParamsLike,
    lr: float,
    weight_decay: float,
    decay_embeddings: bool,
    layer_decay: float,
    overrides: Sequence[Mapping[str, Any]],
    matrices: Mapping[str, Any] | None = None,
    others: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Groups for torch.optim: dicts of name, params, param_names, lr, weight_decay and settings of their own.

    `matrices`: settings of two-dimensional hidden matrices, which form groups of their own then; `others`:
    those of the rest. An `lr` or `weight_decay` there replaces the general one.
    Raises ValueError where nothing is trainable, a pattern matches nothing, or layer_decay is out of (0, 1].
    """
    named = roles(model)
    if not named:
        raise ValueError("The model has no trainable parameter: everything is frozen.")
    if not 0.0 < layer_decay <= 1.0:
        raise ValueError(f"layer_decay={layer_decay} must lie in (0, 1]; 1.0 gives all layers the same rate.")
    if lr < 0 or weight_decay < 0:
        raise ValueError(f"lr={lr} and weight_decay={weight_decay} must not be negative.")
    depth_scale = _depth_scales({name: role for name, (_, role) in named.items()}, layer_decay)
    matching = [(override, _matches(override, named)) for override in overrides]
    groups: dict[tuple[Any, ...], dict[str, Any]] = {}
    for name, (parameter, role) in named.items():
        hidden = matrices is not None and role == "matrix" and parameter.ndim == 2
        settings = dict((matrices if hidden else others) or {})
        rate, decay = settings.pop("lr", lr), settings.pop("weight_decay", weight_decay)
        group = "matrices" if hidden else _decay_group(role)
        if group == "no_decay" or (group == "embeddings" and not decay_embeddings):
            decay = 0.0
        scale, label = depth_scale[name]
        rate *= scale
        for override, names in matching:
            if name in names:
                rate, decay = _apply(override, rate, decay)
                label += f"/{override['pattern']}"
        key = (group + label, rate, decay)
        made = groups.setdefault(
            key,
            {
                "name": group + label,
                "params": [],
                "param_names": [],
                "lr": rate,
                "weight_decay": decay,
                **settings,
            },
        )
        made["params"].append(parameter)
        made["param_names"].append(name)
    return sorted(groups.values(), key=lambda group: ORDER.index(group["name"].split("/")[0]))


ORDER = ("matrices", "decay", "embeddings", "no_decay")
"""The names groups begin with."""


def _decay_group(role: str) -> str:
    return {"matrix": "decay", "head": "decay", "embedding": "embeddings"}.get(role, "no_decay")


def _depth_scales(role_of: Mapping[str, str], layer_decay: float) -> dict[str, tuple[float, str]]:
    """Per parameter layer_decay ** (layers above it), with a label: the top keeps the rate, embeddings least.

    Layers are counted per tower (what precedes `layer.0`). Source: ELECTRA, arXiv 2003.10555.
    """
    if layer_decay == 1.0:
        return dict.fromkeys(role_of, (1.0, ""))
    at = {name: (hit[1], int(hit[2])) for name in role_of if (hit := LAYER.match(name))}
    if not at:
        raise ValueError(
            f"layer_decay={layer_decay}: no parameter name holds a layer number, such as 'layer.0.'."
        )
    layers = {
        tower: 1 + max(depth for other, depth in at.values() if other == tower) for tower, _ in at.values()
    }
    deepest = max(layers.values())
    scales = {}
    for name, role in role_of.items():
        if name in at:
            tower, depth = at[name]
            scales[name] = (layer_decay ** (layers[tower] - depth), f"/layer{depth}")
        elif role == "embedding" or "embed" in name:
            tower_layers = next(
                (n for tower, n in layers.items() if name.startswith(tower.split(".")[0])), deepest
            )
            scales[name] = (layer_decay ** (tower_layers + 1), "/bottom")
        else:
            scales[name] = (1.0, "/top")
    return scales


def _matches(override: Mapping[str, Any], named: Mapping[str, Any]) -> set[str]:
    pattern = override.get("pattern")
    known = ("pattern", "lr", "lr_scale", "weight_decay")
    if unknown := set(override) - set(known):
        raise ValueError(f"overrides: unknown key '{sorted(unknown)[0]}'; known: {', '.join(known)}")
    if not pattern:
        raise ValueError("overrides: each needs a pattern of parameter names, such as '*.layer.0.*'.")
    given = [key for key in ("lr", "lr_scale", "weight_decay") if override.get(key) is not None]
    if not given:
        raise ValueError(f"overrides: pattern '{pattern}' changes nothing; set lr, lr_scale or weight_decay.")
    if "lr" in given and "lr_scale" in given:
        raise ValueError(f"overrides: pattern '{pattern}' has both lr and lr_scale; keep one.")
    if negative := next((key for key in given if override[key] < 0), None):
        raise ValueError(
            f"overrides: pattern '{pattern}' has {negative}={override[negative]}, which is negative."
        )
    if pattern.startswith("re:"):
        names = {name for name in named if re.search(pattern[3:], name)}
    else:
        names = {name for name in named if fnmatch.fnmatchcase(name, pattern)}
    if not names:
        near = difflib.get_close_matches(pattern, list(named), n=3, cutoff=0.3) or list(named)[:3]
        raise ValueError(
            f"overrides: pattern '{pattern}' matches no trainable parameter. Patterns match whole names "
            f"('*' for anything; 're:' for a regular expression anywhere in it), such as {', '.join(near)}."
        )
    return names


def _apply(override: Mapping[str, Any], lr: float, weight_decay: float) -> tuple[float, float]:
    rate, scale, decay = (override.get(key) for key in ("lr", "lr_scale", "weight_decay"))
    lr = lr if rate is None else rate
    return (lr if scale is None else lr * scale), (weight_decay if decay is None else decay)


def groups_table(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """One row per group: name, example (a parameter), tensors, parameters, lr (base rate), weight_decay."""
    rows = []
    for number, group in enumerate(optimizer.param_groups):
        rows.append(
            {
                "name": group.get("name", str(number)),
                "example": next(iter(group.get("param_names", [])), ""),
                "tensors": len(group["params"]),
                "parameters": sum(p.numel() for p in group["params"]),
                "lr": group.get("initial_lr", group["lr"]),
                "weight_decay": group.get("weight_decay", 0.0),
            }
        )
    return rows
