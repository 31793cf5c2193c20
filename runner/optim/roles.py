"""What each parameter is for, found from the module that owns it and from where that module stands.

A model of transformers is a body (its `base_model`) with a head around it, and the body holds its layers in lists
(`nn.ModuleList`). So every trainable parameter has one role:

    norm        anything inside a normalisation layer
    vector      biases, and everything else with fewer than two dimensions
    embedding   tables of embeddings, and parameters that stand for tokens or positions
    matrix      every other weight inside the layers: a hidden matrix; also between them and the output embeddings,
                where a language model transforms its hidden states once more
    projection  a weight of the body before its layers, such as ELECTRA's `embeddings_project`
    head        a weight of the body behind its layers (poolers), the output embeddings, and heads of other tasks

A tied parameter counts once, where it comes first. Outside models of transformers, modules with a list of layers are
read in the same way, and those without one have hidden matrices alone. Bare parameters are read by their names.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

ParamsLike = nn.Module | Iterable[Any]
"""A module, or its parameters, or (name, parameter) pairs, or groups as torch takes them."""

LAYER = re.compile(r"^(.*?)\b(?:layers?|h|blocks?)\.(\d+)\.")
TOKENS = re.compile(r"embed|_token$|^(cls|mask|pos|class)_")


class Place(NamedTuple):
    """Where a parameter stands among the layers."""

    tower: str
    """What holds the layers that it belongs to, precedes or follows; empty where there are none."""
    layer: int | None
    """The layer it is in, from 0 at the input; None outside."""
    below: bool
    """Whether it comes before the layers."""


class Part(NamedTuple):
    """A trainable parameter with its role and its place."""

    parameter: nn.Parameter
    role: str
    place: Place


class _Stretch(NamedTuple):
    """A body, or everything outside of bodies: the prefix of its names, and its lists of layers with their towers."""

    prefix: str
    lists: dict[str, str]


def parts(model: ParamsLike) -> dict[str, Part]:
    """Each trainable parameter with role and place, under its name, in the model's order."""
    if not isinstance(model, nn.Module):
        return _parts_by_name(list(_named(model)))
    places = _places(model)
    outputs = dict(_output_embeddings(model))
    heads = {id(p) for head in outputs.values() for p in head.parameters(recurse=False)}
    speaking = tuple(path + "." if path else "" for path in outputs)
    found = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        place, is_head = places[name]
        role = _kind(name, parameter, model.get_submodule(name.rpartition(".")[0]))
        if role is None and (is_head or id(parameter) in heads):
            transforms = id(parameter) not in heads and name.startswith(speaking)
            role = "matrix" if transforms else "head"
        own_name = name.replace("_orig_mod.", "")  # torch.compile's addition
        found[own_name] = Part(parameter, role or _weight_at(place), place)
    return found


def roles(model: ParamsLike) -> dict[str, tuple[nn.Parameter, str]]:
    """Each trainable parameter with its role, under its name, in the model's order."""
    return {name: (part.parameter, part.role) for name, part in parts(model).items()}


def _kind(name: str, parameter: torch.Tensor, owner: nn.Module | None) -> str | None:
    """The role of a parameter that is no plain weight, from its owner; None for a weight."""
    *path, leaf = name.split(".")
    kind = type(owner).__name__ if owner is not None else path[-1] if path else leaf
    if "norm" in kind.lower():
        return "norm"
    if isinstance(owner, nn.Embedding | nn.EmbeddingBag) or (parameter.ndim > 1 and "Embedding" in kind):
        return "embedding"
    if parameter.ndim < 2 or leaf.endswith("bias"):
        return "vector"
    return "embedding" if TOKENS.search(leaf) or (owner is None and "embed" in name) else None


def _weight_at(place: Place) -> str:
    """The role of a plain weight."""
    if place.layer is not None or not place.tower:
        return "matrix"
    return "projection" if place.below else "head"


def _places(model: nn.Module) -> dict[str, tuple[Place, bool]]:
    """The place of each parameter, and whether it belongs to a head: is in a network but not in its body, or pools."""
    bodies = _bodies(model)
    outside = _Stretch("", _layer_lists(model, "", list(bodies)))
    stretches: dict[str, _Stretch] = {}
    heads: set[str] = set()
    at: dict[str, tuple[str, int] | None] = {}
    for name, _ in model.named_parameters():
        network = next((path for path in bodies if name.startswith(path)), None)
        stretches[name] = outside if network is None else bodies[network]
        at[name] = None
        body = stretches[name].prefix
        if not name.startswith(body) or (network is not None and name.startswith(body + "pooler.")):
            heads.add(name)
        elif path := next((path for path in stretches[name].lists if name.startswith(path)), None):
            at[name] = (stretches[name].lists[path], int(name[len(path) :].split(".")[0]))
    places = _in_order(at, {name: id(stretch) for name, stretch in stretches.items()})
    return {
        name: (place._replace(below=False) if name in heads else place, name in heads)
        for name, place in places.items()
    }


def _in_order(at: dict[str, tuple[str, int] | None], stretches: dict[str, int]) -> dict[str, Place]:
    """Places from those in layers: what is outside precedes the next layers of its stretch, or follows the last."""
    last = {stretches[name]: here[0] for name, here in at.items() if here}
    following: dict[int, str] = {}
    found = {}
    for name, here in reversed(at.items()):
        stretch = stretches[name]
        if here:
            following[stretch] = here[0]
            found[name] = Place(*here, below=False)
        else:
            tower = following.get(stretch)
            found[name] = Place(tower or last.get(stretch, ""), None, tower is not None)
    return {name: found[name] for name in at}


def _bodies(model: nn.Module) -> dict[str, _Stretch]:
    """The body of each of the outermost models of transformers, under the path of that model."""
    bodies: dict[str, _Stretch] = {}
    for path, module in model.named_modules():
        whole = path + "." if path else ""
        if _is_network(module) and not any(whole.startswith(outer) for outer in bodies):
            body = module.base_model
            inner = next(name for name, other in module.named_modules() if other is body)
            prefix = whole + (inner + "." if inner else "")
            bodies[whole] = _Stretch(prefix, _layer_lists(body, prefix, []))
    return bodies


def _is_network(module: nn.Module) -> bool:
    return isinstance(getattr(type(module), "base_model", None), property) and isinstance(
        module.base_model, nn.Module
    )


def _layer_lists(body: nn.Module, prefix: str, without: list[str]) -> dict[str, str]:
    """The outermost lists of modules with weights in them, and lists as long beside these; each with its tower."""
    lists: dict[str, nn.ModuleList] = {}
    for path, module in body.named_modules():
        whole = f"{prefix}{path}."
        inside = any(whole.startswith(outer) for outer in [*lists, *without])
        if isinstance(module, nn.ModuleList) and len(module) and not inside:
            lists[whole] = module
    towers = {path: path[: path.rstrip(".").rfind(".") + 1] or path for path in lists}
    with_weights = {(towers[path], len(each)) for path, each in lists.items() if _has_weights(each)}
    return {path: towers[path] for path, each in lists.items() if (towers[path], len(each)) in with_weights}


def _has_weights(module: nn.Module) -> bool:
    return any(
        _kind(name, parameter, owner) is None
        for owner in module.modules()
        for name, parameter in owner.named_parameters(recurse=False)
    )


def _output_embeddings(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The output embeddings of each language model of Hugging Face inside the model, by the path of that model."""
    for path, module in model.named_modules():
        get = getattr(module, "get_output_embeddings", None)
        head = get() if callable(get) else None
        if isinstance(head, nn.Module):
            yield path, head


def _parts_by_name(named: list[tuple[str, nn.Parameter]]) -> dict[str, Part]:
    """Roles and places from names alone, which hold the number of a layer."""
    hits = {name: LAYER.match(name) for name, _ in named}
    at = {name: (hit[1] or hit[0], int(hit[2])) if hit else None for name, hit in hits.items()}
    places = _in_order(at, dict.fromkeys(at, 0))
    return {
        name: Part(parameter, _kind(name, parameter, None) or _weight_at(places[name]), places[name])
        for name, parameter in named
    }


def _named(params: Iterable[Any]) -> Iterator[tuple[str, nn.Parameter]]:
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
