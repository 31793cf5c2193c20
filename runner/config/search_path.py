"""YAML files on Hydra's search path: the project's, those of plugins, and those in folders of the user's own."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from hydra.core.config_loader import ConfigLoader


def file_on_search_path(loader: ConfigLoader, config: str) -> Traversable | None:
    """The file of a config such as `suite/glue`, the first on the search path; None where there is none."""
    for entry in loader.get_search_path().get_path():
        kind, _, place = (entry.path or "").partition("://")
        if kind in ("pkg", "file") and place:
            folder: Traversable = files(place) if kind == "pkg" else Path(place)
            if (file := folder.joinpath(f"{config}.yaml")).is_file():
                return file
    return None


def names_on_search_path(loader: ConfigLoader, group: str) -> list[str]:
    """The names of a group's configs."""
    return sorted(loader.get_group_options(group))
