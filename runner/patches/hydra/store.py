"""Hydra's store of options, which is not copied for each composition.

Hydra 1.3 copies all sources of configs with the whole `ConfigStore` for each group of --help
(`CachingConfigRepository.__init__`: `copy.deepcopy(delegate)`), 1 CPU s in all. Sources of Hydra 1.4 hold no
store. What is taken out of the store is a copy of its own anyway (`ConfigStore.load`), so the store can be shared.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hydra.core.config_store import ConfigStore


@contextmanager
def shared_store() -> Iterator[None]:
    """A context in which copies of Hydra's sources share the one store.

    Example:
        >>> import copy
        >>> with shared_store():
        ...     copy.deepcopy(ConfigStore.instance()) is ConfigStore.instance()
        True
    """
    store: Any = ConfigStore
    if hasattr(store, "__deepcopy__"):
        yield
        return
    store.__deepcopy__ = lambda kept, memo: kept
    try:
        yield
    finally:
        del store.__deepcopy__
