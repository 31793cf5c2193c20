"""YAML files on Hydra's search path: the project's, those of plugins, and those in folders of the user's own."""

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from hydra.core.config_loader import ConfigLoader


def file_on_search_path(loader: ConfigLoader, config: str) -> Traversable | None:
    """The file of a config such as `suite/glue`, the first on the search path; None where there is none."""
    return next(
        (file for place in _places(loader) if (file := place.joinpath(f"{config}.yaml")).is_file()), None
    )


def names_on_search_path(loader: ConfigLoader, group: str) -> list[str]:
    """The names of a group's configs."""
    return sorted(loader.get_group_options(group))


def _places(loader: ConfigLoader) -> Iterator[Traversable]:
    for entry in loader.get_search_path().get_path():
        kind, _, place = (entry.path or "").partition("://")
        if kind in ("pkg", "file") and place:
            yield files(place) if kind == "pkg" else Path(place)
