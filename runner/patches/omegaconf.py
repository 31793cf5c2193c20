"""Where a node is in its config, and interpolations that are parsed once.

OmegaConf 2.3 and 2.4 tell the place of a node in error messages alone, by `Node._get_full_key`. They parse the text of an
interpolation by antlr each time that it is resolved, in every copy of a config: some 46 times in a job of a sweep.
"""

from functools import lru_cache
from typing import Any

import omegaconf.base
from omegaconf import Node
from omegaconf.grammar_parser import parse


def full_key(node: Node) -> str:
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
