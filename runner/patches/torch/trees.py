"""States of modules and optimizers as trees.

torch 2.10 to 2.15 flattens nested values in `torch.utils._pytree`; `torch.utils.pytree` came and went in between. The
versions of a module's parts are in `_metadata` of its `state_dict`, which `load_state_dict` reads.
"""

from typing import Any

from torch.utils._pytree import tree_leaves

__all__ = ["keep_versions", "tree_leaves"]


def keep_versions(clone: Any, state: object) -> None:
    """Gives the copy of a `state_dict` the versions of the module's parts; other mappings have none.

    Example:
        >>> from torch.nn import BatchNorm1d
        >>> state = BatchNorm1d(2).state_dict()
        >>> clone = type(state)(state)
        >>> keep_versions(clone, state)
        >>> clone._metadata[""]
        {'version': 2}
    """
    if hasattr(state, "_metadata"):
        clone._metadata = state._metadata
