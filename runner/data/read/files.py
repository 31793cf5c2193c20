"""Documents from files: txt, md, json, jsonl, csv, tsv, parquet, arrow, and folders saved by `datasets`."""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from iolaus.conf.values import suggest
from iolaus.runner.data.read.formats import FORMATS, TEXT_FORMATS, read_text

TEXT_UNITS = ("paragraph", "line", "file")
"""What one document can be in txt and md files."""

_SMALL = 64 << 20
"""Bytes up to which files are known by their content; more are known by size and time of change."""


class FileSource:
    """Documents of several files, file by file; their formats go by their endings, unless `file_format` says it."""

    def __init__(
        self,
        files: list[Path],
        named: Path,
        text_column: str,
        text_unit: str,
        file_format: str | None = None,
    ) -> None:
        self.files, self.named, self.file_format = files, named, file_format
        self.text_column, self.text_unit = text_column, text_unit
        for file in files:
            if not file.stat().st_size:
                raise ValueError(f"{file} is empty: remove it, or fill it")

    @cached_property
    def tokenized(self) -> bool:
        """Whether the first file has a column `input_ids`."""
        return self._column(self.files[0]) == "input_ids"

    def documents(self) -> Iterator[Any]:
        """The documents of all files; blank texts and rows without any are passed over.

        Raises:
            ValueError: a file that is not UTF-8, damaged, or lacks the column; it is named, with byte or line.
        """
        for file in self.files:
            kind = self._format(file)
            if kind in TEXT_FORMATS:
                yield from read_text(file, self.text_unit)
                continue
            column = self._column(file)
            if (column == "input_ids") != self.tokenized:
                raise ValueError(
                    f"{self.files[0]} and {file} differ: one has a column input_ids, one has not"
                )
            values = FORMATS[kind].values(file, column)
            if column == "input_ids" and "attention_mask" in (FORMATS[kind].columns(file) or ()):
                values = map(real_tokens, values, FORMATS[kind].values(file, "attention_mask"))
            for number, value in enumerate(values):
                if (document := document_of(value, column, f"row {{}} of {file}", number)) is not None:
                    yield document

    def fingerprint(self) -> dict[str, Any]:
        """Name, size and content (where that is much: time of change) of every file, and how it is read."""
        common = Path(os.path.commonpath([file.absolute().parent for file in self.files]))
        small = sum(file.stat().st_size for file in self.files) <= _SMALL
        return {
            "source": "files",
            "text_column": self.text_column,
            "text_unit": self.text_unit,
            **({"file_format": self.file_format} if self.file_format else {}),
            "files": [
                [file.absolute().relative_to(common).as_posix(), file.stat().st_size, _state(file, small)]
                for file in self.files
            ],
        }

    def describe(self) -> str:
        """One line for the summary of a run."""
        return str(self.named) + (f" ({len(self.files)} files)" if len(self.files) > 1 else "")

    def _column(self, file: Path) -> str:
        kind = self._format(file)
        if kind in TEXT_FORMATS:
            return "text"
        columns = FORMATS[kind].columns(file)
        if columns is None:  # a json list of plain strings
            return self.text_column
        return choose_column(columns, self.text_column, str(file))

    def _format(self, file: Path) -> str:
        """The ending under which the file's format is known."""
        if self.file_format is None:
            return file.suffix.lower()
        return json_ending(file) if self.file_format == "json" else ending_of(self.file_format)


def ending_of(file_format: str) -> str:
    """The ending under which a format is known that is called by its name, such as `json`, `text` or `parquet`.

    Raises:
        ValueError: there is no such format.
    """
    ending = {"text": ".txt"}.get(file_format, f".{file_format.lower().lstrip('.')}")
    if ending not in _known():
        names = [known.lstrip(".") for known in _known()]
        raise ValueError(
            f"file_format={file_format!r}; there are: {', '.join(names)}{suggest(file_format, names)}"
        )
    return ending


def json_ending(file: Path) -> str:
    """`.jsonl` for a file with one record a line, `.json` for one that holds a list of them."""
    with open(file, "rb") as opened:
        first = opened.readline()
    try:
        return ".jsonl" if isinstance(json.loads(first), dict) else ".json"
    except ValueError:
        return ".json"


def real_tokens(ids: Any, mask: Any) -> Any:
    """The token ids of a row without its padding."""
    return None if ids is None else np.asarray(ids)[np.asarray(mask) > 0] if mask is not None else ids


def known_files(path: Path, split: str) -> list[Path]:
    """The files to read for a path: itself, those of known formats in a folder, or those of a saved data set.

    Raises:
        ValueError: an unknown format, a folder without files of a known one, or a split that is not there.
    """
    if path.is_file():
        if not is_known_format(path):
            raise ValueError(f"{path} has an unknown format; known are: {', '.join(_known())}")
        return [path]
    if (path / "dataset_dict.json").is_file():
        splits = _load_json(path / "dataset_dict.json")["splits"]
        if split not in splits:
            raise ValueError(f"{path} has no split {split!r}; it has: {', '.join(splits)}. Set data.split")
        return known_files(path / split, split)
    if (path / "state.json").is_file():
        return [path / file["filename"] for file in _load_json(path / "state.json")["_data_files"]]
    visible = _visible(path)
    if not visible:
        raise ValueError(f"the folder {path} holds no file of a known format: {', '.join(_known())}")
    return visible


SPLIT_NAMES = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing", "eval", "evaluation"),
}
"""What files of a split may be called, as `datasets` finds them in a folder."""


def split_files(folder: Path, split: str) -> list[Path]:
    """The files of a folder that belong to a split, by their names (`train.csv`, `test-00001.parquet`) or subfolder."""
    names = SPLIT_NAMES.get(split, (split,))
    return [
        file
        for file in _visible(folder)
        if {_first_word(file), *file.relative_to(folder).parts[:-1]} & {*names}
    ]


def splits_in(folder: Path) -> list[str]:
    """What the splits of a folder seem to be called."""
    return sorted({_first_word(file) for file in _visible(folder)})


def _first_word(file: Path) -> str:
    """The part of a file's name before the first dot, dash or underscore."""
    return re.split(r"[-_.]", file.name)[0]


def _visible(folder: Path) -> list[Path]:
    """The files of known formats in a folder and below, by path."""
    inside = (file for file in folder.rglob("*") if file.is_file() and is_known_format(file))
    return sorted(f for f in inside if not any(p.startswith(".") for p in f.relative_to(folder).parts))


def is_saved(folder: Path) -> bool:
    """Whether `datasets` has saved a data set, or several splits of one, in the folder."""
    return (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file()


def is_known_format(path: Path) -> bool:
    """Whether the name ends like one of the formats that can be read."""
    return path.suffix.lower() in _known()


def choose_column(columns: list[str], text_column: str, where: str) -> str:
    """`input_ids` if there is one, else the text column.

    Raises:
        ValueError: there is neither.
    """
    for column in ("input_ids", text_column):
        if column in columns:
            return column
    raise ValueError(
        f"{where} has no column {text_column!r}; it has: {', '.join(columns)}. Set data.text_column"
        + suggest(text_column, columns)
    )


def document_of(value: Any, column: str, place: str, number: int) -> Any:
    """A document from the value of a column, or None where it is blank.

    Raises:
        ValueError: the value is neither a text nor, in `input_ids`, a list of integers; `place` (with `{}`) is named.
    """
    if value is None:
        return None
    if column == "input_ids":
        ids = np.asarray(value)
        if ids.ndim == 1 and (ids.dtype.kind in "iu" or not len(ids)):
            return ids if len(ids) else None
        raise ValueError(f"{place.format(number)}: input_ids is no flat list of integers: {str(value)[:60]}")
    if not isinstance(value, str):
        raise ValueError(f"{place.format(number)}: column {column!r} holds {type(value).__name__}, not text")
    return value if value and not value.isspace() else None


def _known() -> list[str]:
    return [*TEXT_FORMATS, *FORMATS]


def _load_json(path: Path) -> Any:
    return json.loads(path.read_bytes())


def _state(file: Path, small: bool) -> str:
    if not small:
        return f"changed {file.stat().st_mtime_ns}"
    with open(file, "rb") as opened:
        return hashlib.file_digest(opened, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
