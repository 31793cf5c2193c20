"""The names of integer classes: in the features that `datasets` writes into schemas, cards and files of a data set."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

from tiryns.runner.run.files import json_object

_HEADER = re.compile(r"---\s*\n(.*?)\n---\s*(?:\n|$)", re.DOTALL)

_OF_SOMETHING_ELSE = (
    KeyError,
    TypeError,
    AttributeError,
    ValueError,
    OSError,
    RecursionError,
    yaml.YAMLError,
)
"""Errors of reading features that something else than `datasets` wrote."""


def class_names(features: Any) -> dict[str, list[str]]:
    """The class names of columns of integer classes, or of lists of them, by features of `datasets` in JSON or YAML."""
    if isinstance(features, list):
        features = {one["name"]: one for one in features}
    found = {str(name): _names(feature) for name, feature in (features or {}).items()}
    return {name: names for name, names in found.items() if names}


def schema_class_names(schema: Any) -> dict[str, list[str]]:
    """The same by the schema of an arrow or parquet file, in which `datasets` and the hub write its features."""
    with suppress(*_OF_SOMETHING_ELSE):
        return class_names(json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"])
    return {}


def card_class_names(file: Path) -> dict[str, list[str]]:
    """The same by the header of `README.md` or by `dataset_info.json`, of the file's folder or of one of two above it.

    Of several configurations those count that the file's path names, by a folder or a pattern, else all; a column that
    these name differently has no names.
    """
    for folder in file.absolute().parents[:3]:
        with suppress(*_OF_SOMETHING_ELSE):
            inside = file.absolute().relative_to(folder)
            found = [(class_names(info["features"]), _is_of(inside, info)) for info in _infos(folder)]
            parts = [names for names, is_meant in found if is_meant] or [names for names, _ in found]
            if parts:
                columns = {name for names in parts for name in names}
                known = {name: [names[name] for names in parts if name in names] for name in columns}
                return {
                    name: all_names[0]
                    for name, all_names in known.items()
                    if all(one == all_names[0] for one in all_names)
                }
    return {}


def _infos(folder: Path) -> list[dict[str, Any]]:
    """The configurations of a data set by the files of its folder, those with features, with their `data_files`."""
    infos: Any = []
    if (card := folder / "README.md").is_file() and (
        match := _HEADER.match(card.read_text(encoding="utf-8"))
    ):
        header = yaml.load(match[1], Loader=yaml.BaseLoader)
        infos = header.get("dataset_info") or []
        infos = infos if isinstance(infos, list) else [infos]
        files = {one["config_name"]: one.get("data_files") for one in header.get("configs") or []}
        infos = [{**info, "data_files": files.get(info.get("config_name", "default"))} for info in infos]
    for name in ("dataset_info.json", "dataset_infos.json"):
        if not infos and (file := folder / name).is_file():
            saved = json_object(file)
            infos = (
                [saved] if "features" in saved else [{**one, "config_name": n} for n, one in saved.items()]
            )
    return [info for info in infos if info.get("features")]


def _is_of(file: Path, info: Mapping[str, Any]) -> bool:
    """Whether the path of a file in its data set names a configuration."""
    given: Any = info.get("data_files") or []
    given = given if isinstance(given, list) else [given]
    paths = [one.get("path") if isinstance(one, Mapping) else one for one in given]
    patterns = [one for path in paths for one in (path if isinstance(path, list) else [path])]
    return info.get("config_name") in file.parts[:-1] or any(
        fnmatch(file.as_posix(), str(one)) for one in patterns
    )


def _names(feature: Any) -> list[str]:
    """The class names of a feature, or of the items of a list, however its version of `datasets` writes lists."""
    if isinstance(feature, list):
        return _names(feature[0]) if len(feature) == 1 else []
    if not isinstance(feature, Mapping):
        return []
    label = feature if feature.get("_type") == "ClassLabel" else feature.get("class_label")
    if label is None:
        return _names(
            next((feature[key] for key in ("feature", "dtype", "sequence", "list") if key in feature), None)
        )
    names = label.get("names") or []
    return list(map(str, [names[n] for n in sorted(names, key=int)] if isinstance(names, Mapping) else names))
