"""The role of each trainable parameter, from its module and the module's place in the body (`base_model`) or head:

    norm        anything inside a normalisation layer
    vector      biases, and everything else with fewer than two dimensions
    embedding   tables of embeddings, and parameters that stand for tokens or positions
    matrix      every other weight inside the layers: a hidden matrix; also the transform before output embeddings
    projection  a weight of the body before its layers, such as ELECTRA's `embeddings_project`
    head        a weight of the body after its layers (poolers), the output embeddings, and heads of other tasks

A tied parameter counts once, at its first name. Modules that are not models of transformers are read in the same way;
without a list of layers all their plain weights are hidden matrices. Bare parameters are read by their names.
"""

import fnmatch
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn

ParamsLike = nn.Module | Iterable[Any]
"""A module, or its parameters, or (name, parameter) pairs, or groups as torch takes them."""

LAYER = re.compile(r"^(.*?)\b(?:layers?|h|blocks?)\.(\d+)\.")
TOKENS = re.compile(r"embed|_token$|^(cls|mask|pos|class)_")


class Place(NamedTuple):
    """The position of a parameter among the layers."""

    tower: str
    """The name of the module whose layers contain, follow or precede the parameter; empty without layers."""
    layer: int | None
    """The layer of the parameter, from 0 at the input; None for a parameter outside of layers."""
    below: bool
    """Whether the parameter comes before the layers."""


class Part(NamedTuple):
    """A trainable parameter with its role and its place among the layers."""

    parameter: nn.Parameter
    role: str
    place: Place


def parts(model: ParamsLike) -> dict[str, Part]:
    """Returns each trainable parameter with role and place, under its name, in the model's order."""
    if not isinstance(model, nn.Module):
        return _parts_by_name(model)
    places = _places(model)
    outputs = {
        path: module.get_output_embeddings()
        for path, module in model.named_modules()
        if callable(getattr(module, "get_output_embeddings", None))
    }
    outputs = {path: head for path, head in outputs.items() if isinstance(head, nn.Module)}
    heads = {id(p) for head in outputs.values() for p in head.parameters(recurse=False)}
    language_models = tuple(path + "." if path else "" for path in outputs)
    by_name = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        place, is_head = places[name]
        role = _kind(name, parameter, model.get_submodule(name.rpartition(".")[0]))
        if role is None and (is_head or id(parameter) in heads):
            transforms = id(parameter) not in heads and name.startswith(language_models)
            role = "matrix" if transforms else "head"
        own_name = name.replace("_orig_mod.", "")  # torch.compile's addition
        by_name[own_name] = Part(parameter, role or _weight_at(place), place)
    return by_name


def depths(all_parts: Iterable[Part]) -> dict[str, int]:
    """Returns the number of layers of each tower."""
    layers: dict[str, int] = {}
    for _, _, (tower, layer, _) in all_parts:
        if layer is not None:
            layers[tower] = max(layers.get(tower, 0), layer + 1)
    return layers


def names_of_pattern(pattern: str, names: Iterable[str]) -> list[str]:
    """Returns the names that equal a pattern (`*`: anything), or contain a match of the regular expression after `re:`.

    Example:
        >>> names_of_pattern("*.bias", ["0.weight", "0.bias"]), names_of_pattern("re:w.i", ["0.weight", "0.bias"])
        (['0.bias'], ['0.weight'])
    """
    expression = pattern[3:] if pattern.startswith("re:") else rf"\A{fnmatch.translate(pattern)}"
    return [name for name in names if re.search(expression, name)]


def _kind(name: str, parameter: torch.Tensor, owner: nn.Module | None) -> str | None:
    """Returns the role `norm`, `embedding` or `vector` by a parameter's module and name; None for other weights."""
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
    """Returns the role of a plain weight."""
    if place.layer is not None or not place.tower:
        return "matrix"
    return "projection" if place.below else "head"


def _places(model: nn.Module) -> dict[str, tuple[Place, bool]]:
    """Returns each parameter's place, and whether it is outside its network's body; poolers are after the layers."""
    bodies = _bodies(model)
    outside = ("", _layer_lists(model, "", list(bodies)))
    networks: dict[str, str | None] = {}
    poolers, heads = set[str](), set[str]()
    at: dict[str, tuple[str, int] | None] = {}
    for name, _ in model.named_parameters():
        network = next((path for path in bodies if name.startswith(path)), None)
        body, lists = outside if network is None else bodies[network]
        networks[name], at[name] = network, None
        if not name.startswith(body):
            heads.add(name)
        elif network is not None and name.startswith(body + "pooler."):
            poolers.add(name)
        elif path := next((path for path in lists if name.startswith(path)), None):
            at[name] = (lists[path], int(name[len(path) :].split(".")[0]))
    places, behind = _in_order(at, networks), heads | poolers
    return {
        name: (place._replace(below=False) if name in behind else place, name in heads)
        for name, place in places.items()
    }


def _in_order(at: dict[str, tuple[str, int] | None], networks: Mapping[str, str | None]) -> dict[str, Place]:
    """Returns all places: a parameter without a layer in `at` is before its network's next layers, or after the last."""
    last = {networks[name]: here[0] for name, here in at.items() if here}
    following: dict[str | None, str] = {}
    places = {}
    for name, here in reversed(at.items()):
        network = networks[name]
        if here:
            following[network] = here[0]
            places[name] = Place(*here, below=False)
        else:
            tower = following.get(network)
            places[name] = Place(tower or last.get(network, ""), None, tower is not None)
    return {name: places[name] for name in at}


def _bodies(model: nn.Module) -> dict[str, tuple[str, dict[str, str]]]:
    """Maps the path of each outermost model of transformers to the path of its body and the body's lists of layers."""
    bodies: dict[str, tuple[str, dict[str, str]]] = {}
    for path, module in model.named_modules():
        whole = path + "." if path else ""
        has_body = isinstance(getattr(type(module), "base_model", None), property)
        body = module.base_model if has_body else None
        if isinstance(body, nn.Module) and not any(whole.startswith(outer) for outer in bodies):
            inner = next(name for name, other in module.named_modules() if other is body)
            prefix = whole + (inner + "." if inner else "")
            bodies[whole] = (prefix, _layer_lists(body, prefix, []))
    return bodies


def _layer_lists(body: nn.Module, prefix: str, without: list[str]) -> dict[str, str]:
    """Maps the path of each outermost module list to its tower's; it, or an equally long one beside it, has weights."""
    lists: dict[str, nn.ModuleList] = {}
    for path, module in body.named_modules():
        whole = f"{prefix}{path}."
        inside = any(whole.startswith(outer) for outer in [*lists, *without])
        if isinstance(module, nn.ModuleList) and len(module) and not inside:
            lists[whole] = module
    towers = {path: path[: path.rstrip(".").rfind(".") + 1] or path for path in lists}
    with_weights = {
        (towers[path], len(each))
        for path, each in lists.items()
        for owner in each.modules()
        for name, parameter in owner.named_parameters(recurse=False)
        if _kind(name, parameter, owner) is None
    }
    return {path: towers[path] for path, each in lists.items() if (towers[path], len(each)) in with_weights}


def _parts_by_name(params: Iterable[Any]) -> dict[str, Part]:
    """Returns roles and places by the parameters' names, which state the layer; ValueError for other objects."""
    pairs: dict[int, tuple[str, nn.Parameter]] = {}
    for number, item in enumerate(params):
        name, parameter = item if isinstance(item, tuple) else (f"parameter{number}", item)
        if not isinstance(parameter, torch.Tensor):
            kind = type(parameter).__name__
            raise ValueError(
                f"params[{number}] is a {kind}; give a model, parameters or (name, parameter) pairs."
            )
        if parameter.requires_grad:
            pairs.setdefault(id(parameter), (name, parameter))  # type: ignore[arg-type]
    hits = {name: LAYER.match(name) for name, _ in pairs.values()}
    at = {name: (hit[1] or hit[0], int(hit[2])) if hit else None for name, hit in hits.items()}
    places = _in_order(at, dict.fromkeys(at))
    return {
        name: Part(parameter, _kind(name, parameter, None) or _weight_at(places[name]), places[name])
        for name, parameter in pairs.values()
    }
