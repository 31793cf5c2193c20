"""The documents that a path and a split name: of a file, a folder, a saved data set or one of the hub."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from iolaus.runner.data.read.files import SPLIT_NAMES, FileSource, is_saved, split_files, splits_in
from iolaus.runner.data.text.sources import CombinedSource, Source, open_source


class DocumentReader(NamedTuple):
    """How documents are read, wherever they are."""

    text_column: str
    text_unit: str
    file_format: str | None
    streaming: bool
    options: Mapping[str, Any] | None

    def open(self, paths: str | Iterable[str], split: str | None, default: str) -> Source:
        """The documents of one path, or of several one after the other, in a `split`; None takes the `default` one.

        Raises:
            FileNotFoundError: nothing is there.
            ValueError: no path, or a split that is not there; those there are are named.
        """
        sources = [self._open_one(path, split, default) for path in listed(paths)]
        if not sources:
            raise ValueError(
                "train_dataset_name_or_path is an empty list: name at least one file, folder or data set"
            )
        return sources[0] if len(sources) == 1 else CombinedSource(sources)

    def _open_one(self, path: str, split: str | None, default: str) -> Source:
        found, (column, unit, file_format, *_) = Path(path).expanduser(), self
        if found.is_dir() and not is_saved(found):
            if files := split_files(found, split or default):
                return FileSource(files, found, column, unit, file_format)
            if split is not None:
                there = ", ".join(splits_in(found)) or "no file"
                raise ValueError(f"{path} has no split {split!r}; it has: {there}")
        elif found.exists() and not (found / "dataset_dict.json").is_file():
            known = {name for names in SPLIT_NAMES.values() for name in names}
            if split not in known | {None}:
                raise ValueError(f"{path} has no split {split!r}; it has: train, which is all of it")
        return open_source(path, column, split or default, *self[1:])


def listed(names: str | Path | Iterable[str]) -> list[str]:
    """One name or several as a list."""
    return [str(names)] if isinstance(names, str | Path) else [str(name) for name in names]


def validation_sets(
    paths: str | list[str] | None, splits: str | list[str] | None
) -> dict[str, tuple[str, str | None]]:
    """Name of each validation set, with its path and split.

    One split is for all paths; of a list each path has its own; and one path may have several.

    Raises:
        ValueError: lists of different lengths.
    """
    if not paths:
        return {}
    paths = listed(paths)
    named: list[str | None] = [None] if splits is None else [*listed(splits)]
    if len(paths) == 1:
        paths = paths * len(named)
    if len(named) == 1:
        named = named * len(paths)
    if len(named) != len(paths):
        raise ValueError(
            f"val_split names {len(named)} splits for {len(paths)} validation sets: give one for all, or one each"
        )
    several_splits = len(set(paths)) < len(paths)
    pairs = list(zip(paths, named, strict=True))
    names = [split if several_splits and split else Path(path).stem for path, split in pairs]
    names = [re.sub(r"[^\w.-]", "_", name).lstrip(".-") or "validation" for name in names]
    unique = [
        f"{name}_{names[:number].count(name) + 1}" if names.count(name) > 1 or name == "train" else name
        for number, name in enumerate(names)
    ]
    return dict(zip(unique, pairs, strict=True))
