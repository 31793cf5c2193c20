"""Opens the documents of a path and a split: a file, a folder, a saved data set or one of the hub."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tiryns.runner.data.read.documents import Source, open_source
from tiryns.runner.data.read.files import SPLIT_NAMES, is_saved, split_files
from tiryns.runner.data.read.formats import DOCUMENTS

_USUAL = {name for names in SPLIT_NAMES.values() for name in names}


def open_splits(paths: str | Path | Iterable[str], split: str | None, default: str, **reading: Any) -> Source:
    """The documents of one path, or of several one after the other, in a `split`; None takes the `default` one.

    `reading` goes to `open_source`. Raises FileNotFoundError for a missing file, and ValueError for no path or an
    unknown split, with the known ones.
    """
    names = [_with_split(path, split, default) for path in listed(paths)]
    if not names:
        raise ValueError(
            "train_dataset_name_or_path is an empty list: name at least one file, folder or data set"
        )
    return open_source(names, split=split or default, **reading)


def _with_split(path: str, split: str | None, default: str) -> str:
    """The path with its split if the split chooses files of a folder; a file alone is all of any usual split."""
    found = Path(path).expanduser()
    if found.is_dir() and not is_saved(found):
        chosen = split or (default if split_files(found, default, DOCUMENTS) else None)
    else:
        chosen = None if split in _USUAL else split
    return f"{path}@{chosen}" if chosen and found.exists() else path


def listed(names: str | Path | Iterable[str]) -> list[str]:
    """One name or several as a list."""
    return [str(names)] if isinstance(names, str | Path) else [str(name) for name in names]


def validation_sets(
    paths: str | list[str] | None, splits: str | list[str] | None
) -> dict[str, tuple[str, str | None]]:
    """Path and split of each validation set, by its name.

    One split is for all paths, one path may have several splits; else the lists must be equally long (ValueError).
    """
    if not paths:
        return {}
    named: list[str | None] = [None] if splits is None else [*listed(splits)]
    paths = listed(paths)
    paths = paths * len(named) if len(paths) == 1 else paths
    named = named * len(paths) if len(named) == 1 else named
    if len(named) != len(paths):
        raise ValueError(
            f"val_split names {len(named)} splits for {len(paths)} validation sets: give one for all, or one each"
        )
    pairs = list(zip(paths, named, strict=True))
    several_splits = len(set(paths)) < len(paths)
    names = [split if several_splits and split else Path(path).stem for path, split in pairs]
    names = [re.sub(r"[^\w.-]", "_", name).lstrip(".-") or "validation" for name in names]
    unique = [
        f"{name}_{names[:number].count(name) + 1}" if names.count(name) > 1 or name == "train" else name
        for number, name in enumerate(names)
    ]
    return dict(zip(unique, pairs, strict=True))
