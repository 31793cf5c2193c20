"""The only place that turns config nodes into objects.

What a node may name says `runner.config.targets`; it is checked before anything is built, and again when it is.
"""

from functools import partial
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf

from iolaus.conf.fields import check_fields
from iolaus.conf.registry import component_of
from iolaus.runner.config.allowed import check_targets
from iolaus.runner.config.calling import Call
from iolaus.runner.config.targets import group_of, locate

INSTRUCTIONS = ("_target_", "_args_", "_partial_", "_convert_", "_recursive_")
"""Keys of a node that say how it is built."""

CONVERSIONS = ("none", "partial", "object", "all")
"""What Hydra knows of `_convert_`: which of the containers in a node reach its target as plain Python."""


def build(node: Any, **given: Any) -> Any:
    """Makes the object that a config node describes; of `given`, known only at run time, it gets what it takes.

    Raises:
        ValueError: a target that the node may not name, a value out of bounds, a node without a target, or one whose
            settings its target does not take.
    """
    return bind(node)(**given)


def build_all(nodes: Any, **given: Any) -> dict[str, Any]:
    """Makes every object of a mapping name -> node, leaving out names set to null."""
    return {str(name): build(node, **given) for name, node in (nodes or {}).items() if node is not None}


def bind(node: Any) -> Call:
    """The target of a node with the node's values bound, to be called with the values known at run time.

    The values of nested nodes are built here; runtime values never pass through OmegaConf. Hydra's instructions count as
    its users know them, but for the default of `_convert_`, which is `all`: plain Python. `_partial_` changes nothing
    here, as every component is called when its values are known.
    """
    if not (isinstance(node, DictConfig) and isinstance(OmegaConf.select(node, "_target_"), str)):
        raise ValueError(f"expected a config node with a _target_, got {node!r}")
    check_targets(node)
    path = node._get_full_key(None)
    args, values = _arguments(node, _How("all", True))
    if found := component_of(node["_target_"]):
        check_fields(found[1], path or found[0], values)
    target, group = locate(node["_target_"], path), group_of(path)
    return Call(target, path or "the node", group, args, values, node["_target_"])


class _How(NamedTuple):
    """How the values of a node reach its target; nodes inside of it inherit it."""

    convert: str
    recursive: bool

    def of(self, node: DictConfig) -> "_How":
        """The same with what a node says of itself."""
        convert = str(getattr(node.get("_convert_"), "value", node.get("_convert_") or self.convert)).lower()
        if convert not in CONVERSIONS:
            key = f"{node._get_full_key(None)}._convert_".lstrip(".")
            raise ValueError(f"{key}={convert}: there are: {', '.join(CONVERSIONS)}")
        recursive = node.get("_recursive_")
        return _How(convert, self.recursive if recursive is None else bool(recursive))


def _arguments(node: DictConfig, how: _How) -> tuple[list[Any], dict[str, Any]]:
    """The positional arguments and the keywords that a node gives its target."""
    how = how.of(node)
    values = {str(name): _value(node[name], how) for name in node if name not in INSTRUCTIONS}
    return [_value(item, how) for item in node.get("_args_") or []], values


def _value(value: Any, how: _How) -> Any:
    """A value as `how` says, its nodes built."""
    if how.recursive and isinstance(value, DictConfig) and "_target_" in value:
        path = value._get_full_key(None)
        target = value["_target_"]
        made = Call(locate(target, path), path or "the node", None, *_arguments(value, how), target)
        return partial(made.func, *made.args, **made.keywords) if value.get("_partial_") else made.made()
    if not OmegaConf.is_config(value):
        return value
    structured = isinstance(value, DictConfig) and OmegaConf.get_type(value) is not dict
    if structured and how.convert == "object":
        return OmegaConf.to_object(value)
    kept = how.convert == "none" or (structured and how.convert == "partial")
    if not how.recursive:
        return value if kept else OmegaConf.to_container(value, resolve=True)
    parts: Any = (
        {name: _value(value[name], how) for name in value}
        if isinstance(value, DictConfig)
        else [_value(item, how) for item in value]
    )
    return OmegaConf.create(parts, flags={"allow_objects": True}) if kept else parts
