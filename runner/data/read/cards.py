"""The metadata of a data set: the files of its splits, and the names of integer classes."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tiryns.runner.run.files import json_object

_HEADER = re.compile(r"---\s*\n(.*?)\n---\s*(?:\n|$)", re.DOTALL)

_OF_SOMETHING_ELSE = (
    KeyError, TypeError, AttributeError, ValueError, OSError, RecursionError, yaml.YAMLError,
)  # fmt: skip
"""Errors that reading features may raise if another program than `datasets` wrote them."""


def card_header(folder: Path) -> dict[str, Any]:
    """Returns the header of a folder's `README.md`, the card of a data set of the hub; empty where there is none."""
    card = folder / "README.md"
    try:
        return _header(card, card.stat().st_mtime_ns)
    except OSError:
        return {}


@cache
def _header(card: Path, mtime_ns: int) -> dict[str, Any]:
    match = _HEADER.match(card.read_text(encoding="utf-8", errors="replace"))
    with suppress(yaml.YAMLError, RecursionError):
        header = yaml.load(match[1], Loader=yaml.BaseLoader) if match else {}
        return header if isinstance(header, dict) else {}
    return {}


def card_files(folder: Path) -> dict[str, dict[str, list[str]]]:
    """Returns the file patterns that the card of a folder names, by configuration and split; empty if there are none.

    Raises ValueError for a pattern that leads out of the folder.
    """
    patterns: dict[str, dict[str, list[str]]] = {}
    for one in _mappings(card_header(folder).get("configs")):
        data_files = one.get("data_files") or []
        if isinstance(data_files, Mapping):
            data_files = [{"split": split, "path": path} for split, path in data_files.items()]
        parts = _as_list(data_files)
        plain = [{"path": part} for part in parts if isinstance(part, str)]
        for part in [*plain, *_mappings(parts)]:
            for pattern in map(str, _as_list(part.get("path"))):
                is_address = "://" in pattern or "::" in pattern
                if is_address or pattern.startswith("/") or ".." in Path(pattern).parts:
                    raise ValueError(f"the card of {folder} names {pattern!r}, which is not in its folder")
                splits = patterns.setdefault(str(one.get("config_name", "default")), {})
                splits.setdefault(str(part.get("split", "train")), []).append(pattern)
    return patterns


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [one for one in _as_list(value) if isinstance(one, Mapping)]


def class_names(features: Any) -> dict[str, list[str]]:
    """Returns the class names of columns of class numbers or lists of them, from features of `datasets` (JSON, YAML)."""
    if isinstance(features, list):
        features = {one["name"]: one for one in features}
    columns = {str(name): _names(feature) for name, feature in (features or {}).items()}
    return {name: names for name, names in columns.items() if names}


def schema_class_names(schema: Any) -> dict[str, list[str]]:
    """Returns class names by column from an arrow or parquet schema, where `datasets` and the hub write features."""
    with suppress(*_OF_SOMETHING_ELSE):
        return class_names(json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"])
    return {}


def card_class_names(file: Path) -> dict[str, list[str]]:
    """Returns class names by column from `README.md` or `dataset_info.json`, in the file's folder or the two above it.

    The names apply to the files of their configuration, which match its patterns or are in a folder of its name. If the
    card has no patterns, they also apply to all files beside it. A column has none if its configurations disagree.
    """
    for folder in file.absolute().parents[:3]:
        with suppress(*_OF_SOMETHING_ELSE):
            inside, patterns = file.absolute().relative_to(folder), card_files(folder)
            infos = [(str(info.get("config_name", "default")), info) for info in _infos(folder)]
            parts = [class_names(one["features"]) for name, one in infos if _is_of(inside, name, patterns)]
            columns = {name for names in parts for name in names}
            candidates = {name: [names[name] for names in parts if name in names] for name in columns}
            if parts:
                return {n: every[0] for n, every in candidates.items() if every.count(every[0]) == len(every)}
    return {}


def _infos(folder: Path) -> list[Mapping[str, Any]]:
    """Returns the configurations that have features, from the card or the JSON files in a data set's folder."""
    infos = _mappings(card_header(folder).get("dataset_info"))
    for name in ("dataset_info.json", "dataset_infos.json"):
        if not infos and (file := folder / name).is_file():
            data = json_object(file)
            infos = [data] if "features" in data else [{**one, "config_name": n} for n, one in data.items()]
    return [info for info in infos if info.get("features")]


def _is_of(file: Path, config: str, patterns: Mapping[str, Mapping[str, Sequence[str]]]) -> bool:
    """Whether a file in a data set belongs to a configuration, given the file patterns of the card, if any."""
    if config in patterns:
        return any(fnmatch(file.as_posix(), one) for globs in patterns[config].values() for one in globs)
    return config in file.parts[:-1] or (not patterns and (len(file.parts) == 1 or config == "default"))


def _names(feature: object) -> list[str]:
    """Returns the class names of a feature, or of the items of a list, in the form of any version of `datasets`."""
    if isinstance(feature, list):
        return _names(feature[0]) if len(feature) == 1 else []
    if not isinstance(feature, Mapping):
        return []
    label = feature if feature.get("_type") == "ClassLabel" else feature.get("class_label")
    if label is None:
        items = (feature[key] for key in ("feature", "dtype", "sequence", "list") if key in feature)
        return _names(next(items, None))
    names = label.get("names") or []
    return list(map(str, [names[n] for n in sorted(names, key=int)] if isinstance(names, Mapping) else names))
