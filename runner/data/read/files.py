"""Finds the files of a path, glob or split, or the data set of the Hugging Face hub, that a name stands for."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from glob import glob, has_magic
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tiryns.conf.values import NAMED
from tiryns.runner.data.read.content import COMPRESSED
from tiryns.runner.data.read.formats import ending_format, endings_of
from tiryns.runner.run.files import json_object

SPLIT_NAMES = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing", "eval", "evaluation"),
}
"""Names of files and folders for each split, as `datasets` recognises them."""

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?(:[\w.-]+)?")

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


class Found(NamedTuple):
    """The files that were found, or the `hub` data set and the name of its configuration."""

    files: list[Path]
    split: str
    one: bool = False  # whether a single file was named, or a split of a folder
    hub: str = ""
    config: str | None = None


def locate(spec: str, split: str, formats: Sequence[str], any_format: bool = False) -> Found:
    """Finds a file, folder, glob, data set saved by `datasets`, or data set of the hub, `name:config`.

    A split follows an `@`; without one, hub data sets and saved ones with several splits take `split`, and a folder all
    its files. With `any_format` a named file may have any ending.

    Raises:
        FileNotFoundError: nothing is there.
        ValueError: an unknown format or split, or a folder without files.
    """
    if problem := NAMED.problem(spec):
        raise ValueError(f"data: {spec!r}: {problem}")
    name, chosen, paths = spec, "", _matches(spec)
    if not paths and "@" in spec:
        name, _, chosen = spec.rpartition("@")
        paths = _matches(name)
    if paths:
        files = [file for path in paths for file in _files(path, chosen, split, formats, any_format)]
        return Found(files, chosen or split, one=bool(chosen) or Path(spec).expanduser().is_file())
    if has_magic(name):
        raise FileNotFoundError(f"no file matches {name} (looked in {Path.cwd()})")
    looks_like_path = name.startswith(("/", ".", "~")) or name.endswith("/")
    if looks_like_path or ending_format(Path(name)) in formats or not _HUB_NAME.fullmatch(name):
        raise FileNotFoundError(
            f"no file or folder {name} (looked in {Path.cwd()}); a data set of the hub is written name:config@split"
        )
    hub, _, config = name.partition(":")
    return Found([], chosen or split, hub=hub, config=config or None)


def _matches(name: str) -> list[Path]:
    path = Path(name).expanduser()
    if path.exists():
        return [path]
    return sorted(map(Path, glob(str(path), recursive=True))) if has_magic(name) else []


def _files(path: Path, chosen: str, split: str, formats: Sequence[str], any_format: bool) -> list[Path]:
    """The files of one path: itself, those of known formats in a folder, or those of a saved data set."""
    known = ", ".join(endings_of(formats))
    if path.is_file() and not any_format and ending_format(path) not in formats:
        advice = "Set data.format where its name does not tell"
        if path.suffix == ".spacy":
            advice = (
                "Convert spaCy's DocBin to json, a list of [text, {'entities': [[start, end, label], ...]}]"
            )
        raise ValueError(f"{path} has an unknown format; known are: {known}. {advice}")
    wanted = chosen or (split if (path / "dataset_dict.json").is_file() else None)
    if files := split_files(path, wanted, formats):
        return files
    if wanted is None:
        raise ValueError(f"the folder {path} holds no file of a known format: {known}")
    splits = splits_in(path, formats)
    if wanted in splits:
        raise ValueError(f"{path / wanted} holds no data set: a split that {path} names is missing")
    there = ", ".join(splits) or "no file"
    raise ValueError(f"{path} has no split {wanted!r}; it has: {there}. Set data.split, or write PATH@SPLIT")


def split_files(path: Path, split: str | None, formats: Sequence[str]) -> list[Path]:
    """The files of a split, or with None of all splits.

    Files of a folder belong to a split by their names (`train.csv`, `test-00001.parquet`) or subfolder. A single file,
    and a data set saved without splits, are the split `train`.
    """
    if split is not None and (path / "dataset_dict.json").is_file():
        return split_files(path / split, None, formats) if split in splits_in(path, formats) else []
    if path.is_file():
        return [path] if split in (None, "train") else []
    if (path / "state.json").is_file():
        return _data_files(path) if split in (None, "train") else []
    names = SPLIT_NAMES.get(split or "", (split,))
    return [
        file
        for file in _visible(path, formats)
        if split is None or {_first_word(file), *file.relative_to(path).parts[:-1]} & {*names}
    ]


def _data_files(folder: Path) -> list[Path]:
    """The files of a data set that `datasets` has saved; ValueError for others than names of files in its folder."""
    saved = json_object(folder / "state.json").get("_data_files")
    try:
        names = [Path(file["filename"]) for file in saved]  # type: ignore[union-attr]
    except (TypeError, KeyError):
        names = []
    if not names or any(len(name.parts) != 1 for name in names):
        raise ValueError(f"{folder / 'state.json'} names no files of this folder, as `datasets` writes them")
    return [folder / name for name in names]


def splits_in(path: Path, formats: Sequence[str]) -> list[str]:
    """The names of the splits that a path has."""
    if (path / "dataset_dict.json").is_file():
        splits = json_object(path / "dataset_dict.json").get("splits")
        if not isinstance(splits, list) or not all(isinstance(name, str) for name in splits):
            raise ValueError(f"{path / 'dataset_dict.json'} names no splits, as `datasets` writes them")
        return splits
    if path.is_file() or (path / "state.json").is_file():
        return ["train"]
    return sorted({_first_word(file) for file in _visible(path, formats)})


def is_saved(folder: Path) -> bool:
    """Whether `datasets` has saved a data set, or several splits of one, in the folder."""
    return (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file()


def _first_word(file: Path) -> str:
    """The part of a file's name before the first dot, dash or underscore."""
    return re.split(r"[-_.]", file.name)[0]


def _visible(folder: Path, formats: Sequence[str]) -> list[Path]:
    """The files of known formats in a folder and below, by path; compressed files only if not there unpacked."""
    inside = sorted(f for f in folder.rglob("*") if ending_format(f) in formats and f.is_file())
    found = [f for f in inside if not any(p.startswith(".") for p in f.relative_to(folder).parts)]
    plain = {*found}
    return [f for f in found if f.suffix.lower() not in COMPRESSED or f.with_suffix("") not in plain]


def load_hub(name: str, config: str | None, split: str | None, **options: Any) -> Any:
    """The split of a data set from `datasets.load_dataset`, or with None all splits by name.

    Raises FileNotFoundError if the hub lacks the name or cannot be reached, ValueError for a missing split.
    """
    from datasets import get_dataset_split_names, load_dataset

    if split is not None:
        options["split"] = split
    try:
        return load_dataset(name, config, **options)
    except Exception as error:  # connection, offline mode, unknown name, split or configuration
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        if split is not None and "split" in reason.lower():
            known = ", ".join(get_dataset_split_names(name, config))
            raise ValueError(f"{name} has no split {split!r}; it has: {known}") from error
        raise FileNotFoundError(
            f"{name!r} is no file or folder here, and no data set that could be loaded from the hub ({reason}). "
            "Check the spelling and the connection; a configuration is written name:config, a split name@split"
        ) from error


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
