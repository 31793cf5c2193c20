"""The only place that makes objects from config nodes; `runner.config.targets` says which targets are allowed."""

from functools import partial
from typing import Any

from omegaconf import DictConfig, OmegaConf

from tiryns.conf.fields import check_fields
from tiryns.conf.registry import component_of
from tiryns.runner.config.calling import Call
from tiryns.runner.config.targets import check_targets, group_of, locate
from tiryns.runner.patches.omegaconf import full_key, raw_values, used_value
from tiryns.runner.protocols import with_defaults

INSTRUCTIONS = ("_target_", "_args_", "_partial_", "_convert_", "_recursive_")
"""Keys of a node that are no arguments of its target."""

CONVERSIONS = ("none", "partial", "object", "all")
"""Hydra's values of `_convert_`: which containers become plain Python."""


def build(node: object, **values: object) -> Any:
    """Makes the object of a config node. The target gets each run-time value in `values` that is one of its parameters.

    Raises ValueError for a missing or forbidden target, a value out of bounds, or settings that the target does not take.
    """
    return bind(node)(**values)


def build_all(nodes: Any, **values: Any) -> dict[str, Any]:
    """Makes the object of every node in a mapping from names to nodes; skips nodes that are null."""
    return {str(name): build(node, **values) for name, node in (nodes or {}).items() if node is not None}


def bind(node: object) -> Call:
    """Returns the target of a node with the node's values bound, to be called with the values known at run time.

    Nested nodes are built here. Hydra's instructions have their usual meaning, but the default of `_convert_` is `all`,
    and `_partial_` has no effect, as the target is called later anyway.
    """
    if not (isinstance(node, DictConfig) and isinstance(OmegaConf.select(node, "_target_"), str)):
        raise ValueError(f"expected a config node with a _target_, got {node!r}")
    check_targets(node)
    path = full_key(node)
    args, values = _arguments(node, "all", True)
    if component := component_of(node["_target_"]):
        check_fields(component[1], path or component[0], values)
    target, group = locate(node["_target_"], path), group_of(path)
    return Call(with_defaults(target, group), path or "the node", group, args, values, node["_target_"])


def _arguments(node: DictConfig, convert: str, recursive: bool) -> tuple[list[Any], dict[str, Any]]:
    """Returns the positional and keyword arguments of a node's target; a node inherits `_convert_` and `_recursive_`."""
    raw = raw_values(node)  # asking a node for what it lacks takes OmegaConf 40 microseconds
    conversion, inner = (used_value(node, name, raw.get(name)) for name in ("_convert_", "_recursive_"))
    convert = str(getattr(conversion, "value", conversion or convert)).lower()
    if convert not in CONVERSIONS:
        key = f"{full_key(node)}._convert_".lstrip(".")
        raise ValueError(f"{key}={convert}: expected one of: {', '.join(CONVERSIONS)}")
    how = convert, recursive if inner is None else bool(inner)
    values = {
        str(name): _value(used_value(node, name, value), *how)
        for name, value in raw.items()
        if name not in INSTRUCTIONS
    }
    return [_value(item, *how) for item in used_value(node, "_args_", raw.get("_args_")) or []], values


def _value(value: Any, convert: str, recursive: bool) -> Any:
    if recursive and isinstance(value, DictConfig) and "_target_" in value:
        path, target = full_key(value), value["_target_"]
        call = Call(
            locate(target, path), path or "the node", None, *_arguments(value, convert, recursive), target
        )
        return partial(call.func, *call.args, **call.keywords) if value.get("_partial_") else call.build()
    if not OmegaConf.is_config(value):
        return value
    is_structured = isinstance(value, DictConfig) and OmegaConf.get_type(value) is not dict
    if is_structured and convert == "object":
        return OmegaConf.to_object(value)
    keeps_nodes = convert == "none" or (is_structured and convert == "partial")
    if not recursive:
        return value if keeps_nodes else OmegaConf.to_container(value, resolve=True)
    parts: Any
    if isinstance(value, DictConfig):
        parts = {name: _value(value[name], convert, recursive) for name in value}
    else:
        parts = [_value(item, convert, recursive) for item in value]
    return OmegaConf.create(parts, flags={"allow_objects": True}) if keeps_nodes else parts
