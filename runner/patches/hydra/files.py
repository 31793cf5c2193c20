"""A context around each file that Hydra reads from a folder, and one in which its store of options is not copied.

Hydra 1.3 and 1.4 parse whatever file is found, and their errors name no line of it. A source of ours cannot take the
place of theirs: Hydra takes one class for each scheme (`SourcesRegistry.register`).

Hydra 1.3 copies all sources with the whole `ConfigStore` for each group of --help (`CachingConfigRepository.__init__`).
What is taken out of the store is a copy anyway (`ConfigStore.load`). Sources of Hydra 1.4 hold no store.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.plugins.config_source import ConfigSource

from tiryns.runner.patches.hydra.plugins import plugins


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


@contextmanager
def reading(around: Callable[[Path], AbstractContextManager[None]]) -> Iterator[None]:
    """A context in which Hydra reads each file within the context that `around` makes of its path.

    Example:
        >>> with reading(lambda path: suppress(FileNotFoundError)):  # doctest: +SKIP
        ...     hydra.compose("config")
    """
    sources: list[Any] = list(plugins().discover(ConfigSource))
    source_of_files = next(source for source in sources if source.scheme() == "file")
    load = source_of_files.load_config

    def load_within(source: ConfigSource, config_path: str) -> object:
        with around(Path(source.path) / f"{config_path.removesuffix('.yaml')}.yaml"):
            return load(source, config_path)

    source_of_files.load_config = load_within
    try:
        yield
    finally:
        source_of_files.load_config = load
