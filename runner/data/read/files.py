"""Finds what a name stands for: the files of a path, glob or split, or a data set of the Hugging Face hub."""

import re
from collections.abc import Mapping, Sequence
from glob import glob, has_magic
from pathlib import Path
from typing import Any, NamedTuple

from tiryns.conf.values import NAMED
from tiryns.runner.data.read.cards import card_files
from tiryns.runner.data.read.content import COMPRESSED
from tiryns.runner.data.read.formats import ending_format, endings_of
from tiryns.runner.run.errors import reason_of
from tiryns.runner.run.files import json_object

SPLIT_NAMES = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing", "eval", "evaluation"),
}
"""Names of files and folders for each split, as `datasets` recognises them."""

_ABOUT = ("README", "LICENSE", "LICENCE")
"""First words of files that are about the data and belong to no split."""

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?(:[\w.-]+)?")

_ADVICE = {
    ".spacy": "Convert spaCy's DocBin to json, a list of [text, {'entities': [[start, end, label], ...]}]",
    ".ann": "Convert brat's annotations to jsonl, {'text': ..., 'entities': [[start, end, label], ...]}; an entity of "
    "several parts has no such form",
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "Save the sheet as csv in UTF-8"),
    **dict.fromkeys((".zip", ".tar", ".tgz", ".7z"), "Unpack it, and name the files or their folder"),
    ".txt": "Set data.format to what it holds, such as conll or tsv",
}
"""What to do with files that are not read, by their endings."""


class Found(NamedTuple):
    """The files that were found, or the `hub` data set and the name of its configuration."""

    files: list[Path]
    split: str
    one: bool = False  # whether a single file was named, or a split of a folder
    hub: str = ""
    config: str | None = None


def locate(spec: str, split: str, formats: Sequence[str], any_format: bool = False) -> Found:
    """Finds a file, folder, glob, data set saved by `datasets`, or data set of the hub, `name:config`.

    A name may end in `@` and a split. Otherwise `split` is taken where there are several splits: in data sets of the hub,
    saved ones, data sets whose card lists their files, and folders whose files are all named as splits. Other folders
    give all files. With `any_format` a named file may have any ending.

    Raises:
        FileNotFoundError: nothing is there.
        ValueError: an unknown format or split, or a folder without files.
    """
    if problem := NAMED.problem(spec):
        raise ValueError(f"data: {spec!r}: {problem}")
    name, named_split, paths = spec, "", _matches(spec)
    if not paths and "@" in spec:
        name, _, named_split = spec.rpartition("@")
        paths = _matches(name)
    clone, _, config = name.partition(":")
    folder = Path(clone).expanduser()
    if folder.is_dir() and not is_saved(folder) and (patterns := card_files(folder)):
        files = _card_split(folder, of_config(folder, patterns, config), named_split or split)
        paths, named_split, name = files, "", clone
    if paths:
        each = (file for path in paths for file in _files(path, named_split, split, formats, any_format))
        files = list(dict.fromkeys(each))  # `**` matches folders beside the files below them
        return Found(files, named_split or split, one=bool(named_split) or Path(spec).expanduser().is_file())
    if has_magic(name):
        raise FileNotFoundError(f"no file matches {name} (looked in {Path.cwd()})")
    looks_like_path = name.startswith(("/", ".", "~")) or name.endswith("/")
    if looks_like_path or ending_format(Path(name)) in formats or not _HUB_NAME.fullmatch(name):
        raise FileNotFoundError(
            f"no file or folder {name} (looked in {Path.cwd()}); a data set of the hub is written name:config@split"
        )
    return Found([], named_split or split, hub=clone, config=config or None)


def of_config(
    folder: Path, patterns: Mapping[str, Mapping[str, list[str]]], config: str
) -> Mapping[str, list[str]]:
    """Returns the splits of a configuration in a card; by default, of the only configuration or of `default`."""
    usual = next(iter(patterns)) if len(patterns) == 1 else "default"
    if (splits := patterns.get(config or usual)) is None:
        has = f"no configuration {config!r}; it has" if config else "several configurations"
        raise ValueError(f"{folder} has {has}: {', '.join(patterns)}. Write {folder}:{next(iter(patterns))}")
    return splits


def _card_split(folder: Path, splits: Mapping[str, list[str]], split: str) -> list[Path]:
    """Returns the files of a split by the patterns of a card."""
    part = next((name for name in SPLIT_NAMES.get(split, (split,)) if name in splits), None)
    if part is None:
        raise ValueError(
            f"{folder} has no split {split!r}; it has: {', '.join(splits)}. Set data.split, or write PATH@SPLIT"
        )
    files = sorted({path for pattern in splits[part] for path in folder.glob(pattern)})
    if not files:
        problem = f"{folder} holds no file {' or '.join(splits[part])}, which its card names for {part}"
        raise FileNotFoundError(problem)
    return files


def _matches(name: str) -> list[Path]:
    path = Path(name).expanduser()
    if path.exists():
        return [path]
    return sorted(map(Path, glob(str(path), recursive=True))) if has_magic(name) else []


def _files(path: Path, named_split: str, split: str, formats: Sequence[str], any_format: bool) -> list[Path]:
    """Returns the files of one path: itself, files of known formats in a folder, or the files of a saved data set."""
    endings = ", ".join(endings_of(formats))
    if path.is_file() and not any_format and ending_format(path) not in formats:
        raise ValueError(f"{path} has an unknown format; known are: {endings}. {_advice([path])}")
    has_splits = path.is_dir() and not is_saved(path) and are_splits(path, _visible(path, formats))
    is_data_set = (path / "dataset_dict.json").is_file()
    part = named_split or (split if has_splits or is_data_set else None)
    if files := split_files(path, part, formats):
        return files
    if part is None:
        advice = _advice(sorted(path.rglob("*")))
        raise ValueError(f"the folder {path} holds no file of a known format: {endings}. {advice}")
    splits = splits_in(path, formats)
    if part in splits:
        raise ValueError(f"{path / part} holds no data set: a split that {path} names is missing")
    there = ", ".join(splits) or "no file"
    raise ValueError(f"{path} has no split {part!r}; it has: {there}. Set data.split, or write PATH@SPLIT")


def _advice(paths: Sequence[Path]) -> str:
    """Returns advice for files that cannot be read; `.tar.gz` counts as `.tar`."""
    endings = [ending for path in paths for ending in path.suffixes[-2:] if ending in _ADVICE]
    return _ADVICE[min(endings)] if endings else "Set data.format if its ending does not name the format"


def are_splits(folder: Path, files: Sequence[Path]) -> bool:
    """Whether the files of a folder are of several splits, and all but README and LICENSE of a split."""
    splits = {split_of(folder, file) for file in files if _first_word(file).upper() not in _ABOUT}
    return None not in splits and len(splits) > 1


def split_of(folder: Path, file: Path) -> str | None:
    """Returns the first of `SPLIT_NAMES` that the beginning of a file's name or a subfolder names; None without one."""
    words = {_first_word(file), *file.relative_to(folder).parts[:-1]}
    return next((split for split, names in SPLIT_NAMES.items() if words & {*names}), None)


def split_files(path: Path, split: str | None, formats: Sequence[str]) -> list[Path]:
    """Returns the files of a split, or of all splits if `split` is None.

    Files of a folder belong to a split by their names (`train.csv`, `test-00001.parquet`) or subfolder. A single file,
    and a data set saved without splits, are the split `train`.
    """
    if split is not None and (path / "dataset_dict.json").is_file():
        return split_files(path / split, None, formats) if split in splits_in(path, formats) else []
    if path.is_file():
        return [path] if split in (None, "train") else []
    if (path / "state.json").is_file():
        return _data_files(path) if split in (None, "train") else []
    files = _visible(path, formats)
    if split in SPLIT_NAMES:
        return [file for file in files if split_of(path, file) == split]
    return [file for file in files if split in (None, _first_word(file), *file.relative_to(path).parts[:-1])]


def _data_files(folder: Path) -> list[Path]:
    """Returns the files of a data set that `datasets` has saved; ValueError for names outside its folder."""
    entries = json_object(folder / "state.json").get("_data_files")
    try:
        names = [Path(file["filename"]) for file in entries]  # type: ignore[union-attr]
    except (TypeError, KeyError):
        names = []
    if not names or any(len(name.parts) != 1 for name in names):
        raise ValueError(f"{folder / 'state.json'} names no files of this folder; `datasets` would name them")
    return [folder / name for name in names]


def splits_in(path: Path, formats: Sequence[str]) -> list[str]:
    """Returns the names of the splits that a path has."""
    if (path / "dataset_dict.json").is_file():
        splits = json_object(path / "dataset_dict.json").get("splits")
        if not isinstance(splits, list) or not all(isinstance(name, str) for name in splits):
            raise ValueError(f"{path / 'dataset_dict.json'} names no splits; `datasets` would name them")
        return splits
    if path.is_file() or (path / "state.json").is_file():
        return ["train"]
    return sorted({split_of(path, file) or _first_word(file) for file in _visible(path, formats)})


def is_saved(folder: Path) -> bool:
    """Whether `datasets` has saved a data set, or several splits of one, in the folder."""
    return (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file()


def _first_word(file: Path) -> str:
    """Returns the part of a file's name before the first dot, dash or underscore."""
    return re.split(r"[-_.]", file.name)[0]


def _visible(folder: Path, formats: Sequence[str]) -> list[Path]:
    """Returns the files of known formats in a folder and below, by path; omits compressed files that are unpacked too."""
    inside = sorted(f for f in folder.rglob("*") if ending_format(f) in formats and f.is_file())
    files = [f for f in inside if not any(p.startswith(".") for p in f.relative_to(folder).parts)]
    plain = {*files}
    return [f for f in files if f.suffix.lower() not in COMPRESSED or f.with_suffix("") not in plain]


def load_hub(name: str, config: str | None, split: str | None, **options: object) -> Any:
    """Returns the split of a data set from `datasets.load_dataset`, or all splits by name if `split` is None.

    Raises FileNotFoundError if the hub lacks the name or cannot be reached, ValueError for a missing split.
    """
    from datasets import get_dataset_split_names, load_dataset

    if split is not None:
        options["split"] = split
    try:
        return load_dataset(name, config, **options)
    except Exception as error:  # connection, offline mode, unknown name, split or configuration
        reason = reason_of(error)
        if split is not None and "split" in reason.lower():
            splits = ", ".join(get_dataset_split_names(name, config))
            raise ValueError(f"{name} has no split {split!r}; it has: {splits}") from error
        raise FileNotFoundError(
            f"{name!r} is no file or folder here, and no data set that could be loaded from the hub ({reason}). "
            "Check the spelling and the connection; a configuration is written name:config, a split name@split"
        ) from error
