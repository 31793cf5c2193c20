"""Where a node is in its config: OmegaConf 2.3 and 2.4 say so in error messages alone, by `Node._get_full_key`."""

from typing import Any


def full_key(node: Any) -> str:
    """Returns the path of a node from the root of its config, empty for the root.

    Example:
        >>> full_key(OmegaConf.create({"model": {"config": {}}}).model.config)
        'model.config'
    """
    return str(node._get_full_key(None))
