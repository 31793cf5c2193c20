"""Where a node is in its config, interpolations that are parsed once, and copies of configs.

OmegaConf 2.3 and 2.4 tell the place of a node in error messages alone, by `Node._get_full_key`. They parse the text of an
interpolation by antlr each time that it is resolved, in every copy of a config: some 46 times in a job of a sweep. They
copy a config by `copy.deepcopy` of what they note of each node: 21 copies were a sixth of a job of a sweep.
"""

import copy
from functools import lru_cache, partial
from typing import Any

import omegaconf.base
from omegaconf import DictConfig, ListConfig, Node
from omegaconf.base import Metadata
from omegaconf.grammar_parser import parse


def full_key(node: Node) -> str:
    """Returns the path of a node from the root of its config, empty for the root.

    Example:
        >>> full_key(OmegaConf.create({"model": {"config": {}}}).model.config)
        'model.config'
    """
    return str(node._get_full_key(None))


def quicken() -> None:
    """Keeps the trees of interpolations by their text, which OmegaConf only reads, and copies configs node by node.

    An error of parsing is not kept. The copies are those that OmegaConf makes, in a fifth of the time or less.

    Example:
        >>> quicken()
        >>> config = OmegaConf.create({"seeds": [1, 2]})
        >>> config.copy().seeds.append(3), config
        (None, {'seeds': [1, 2]})
    """
    base: Any = omegaconf.base
    if base.parse is parse:
        base.parse = lru_cache(4096)(parse)
    copies: tuple[Any, ...] = (Metadata, _metadata), (DictConfig, _node), (ListConfig, _node)
    for kind, function in copies:
        kind.__deepcopy__ = function


def _metadata(noted: Metadata, memo: object) -> Metadata:
    """A copy of what is noted of a node; the rest of it are types and a key, which never change."""
    made = object.__new__(type(noted))
    made.__dict__.update(noted.__dict__)
    made.flags = dict(noted.flags or {})
    cache: Any = noted.resolver_cache
    made.resolver_cache = copy.deepcopy(cache) if cache else type(cache)(cache.default_factory)
    return made


def _node(node: Node, memo: object, parent: Node | None = None) -> Node:
    """A copy of a node and all below it, in its own parent by default."""
    made = object.__new__(type(node))
    values = made.__dict__
    values.update(node.__dict__, _metadata=_metadata(node._metadata, memo), _flags_cache=None)
    if parent is not None:
        values["_parent"] = parent
    content, inside = values.get("_content"), partial(_node, memo=memo, parent=made)
    if isinstance(content, dict):
        values["_content"] = dict(zip(content, map(inside, content.values()), strict=True))
    elif isinstance(content, list):
        values["_content"] = list(map(inside, content))
    elif isinstance(content, Node):
        values["_content"] = inside(content)
    return made
