"""The only place that turns config nodes into objects.

What a node may name says `runner.config.targets`; it is checked before anything is built, and again when it is.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf

from iolaus.conf.fields import check_fields
from iolaus.conf.registry import component_of
from iolaus.runner.config.custom_code import allow_custom_code
from iolaus.runner.config.targets import allow_targets, check_target, locate

INSTRUCTIONS = ("_target_", "_args_", "_partial_", "_convert_", "_recursive_")
"""Keys of a node that say how it is built."""


def allow_code(config: DictConfig) -> None:
    """Lets what the config allows be built: targets of the user's own, and code that models bring."""
    allow_targets([*config.allowed_targets, *config.imports])
    allow_custom_code(bool(config.get("trust_remote_code", False)))


def build(node: Any, **given: Any) -> Any:
    """Makes the object that a config node describes; `given` are the values known only at run time.

    Raises:
        ValueError: a target that the node may not name, a value out of bounds, or a node without a target.
    """
    return bind(node)(**given)


def build_all(nodes: Any, **given: Any) -> dict[str, Any]:
    """Makes every object of a mapping name -> node, leaving out names set to null."""
    return {str(name): build(node, **given) for name, node in (nodes or {}).items() if node is not None}


def bind(node: Any) -> Callable[..., Any]:
    """The target of a node with the node's values bound, to be called with the values known at run time.

    The values of nested nodes are built here; runtime values never pass through OmegaConf. Of Hydra's instructions
    `_args_` and `_partial_` count; all values are plain Python, as with `_convert_: all`.
    """
    if not (isinstance(node, DictConfig) and isinstance(OmegaConf.select(node, "_target_"), str)):
        raise ValueError(f"expected a config node with a _target_, got {node!r}")
    check_targets(node)
    target = locate(node["_target_"], node._get_full_key(None))
    values = {str(name): _value(node[name]) for name in node if name not in INSTRUCTIONS}
    if found := component_of(node["_target_"]):
        check_fields(found[1], node._get_full_key(None) or found[0], values)
    return partial(target, *_value(node.get("_args_", [])), **values)


def check_targets(node: Any) -> None:
    """Raises ValueError for a config in which a node names a target that may not be built; Hydra's own are not read."""
    if isinstance(node, DictConfig):
        path = node._get_full_key(None)
        for name in node:
            if OmegaConf.is_missing(node, name) or (name == "hydra" and not path):
                continue
            value = node[name]
            if name == "_target_":
                check_target(str(value), path)
            elif path:
                _check_code(str(name), value, path)
            check_targets(value)
    elif isinstance(node, ListConfig):
        for item in node:
            check_targets(item)


def _check_code(name: str, value: Any, path: str) -> None:
    """Refuses what has transformers run code of a model's author."""
    if name == "trust_remote_code" and value:
        raise ValueError(
            f"{path}.{name} is refused: only trust_remote_code=true on the command line lets a model run its own code"
        )
    if name.endswith("attn_implementation") and "/" in str(value):
        raise ValueError(
            f"{path}.{name}={value} is refused: it would run code from the hub. There are sdpa and eager"
        )


def _value(value: Any) -> Any:
    """A value in plain Python, its nodes built."""
    if isinstance(value, DictConfig) and "_target_" in value:
        return bind(value) if value.get("_partial_") else build(value)
    if isinstance(value, DictConfig):
        return {name: _value(value[name]) for name in value}
    return [_value(item) for item in value] if isinstance(value, ListConfig) else value
