"""Documents of files: one column of their rows, or pieces of a text, streamed file by file."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from iolaus.runner.data.read.formats import (
    ARROW,
    DOCUMENTS,
    FORMATS,
    TEXTS,
    arrow_batches,
    columns_of,
    file_format,
    known_format,
    no_column,
    read_text,
)
from iolaus.runner.data.read.opened import AS_FOUND, File, Reading

_SMALL = 64 << 20
"""Bytes up to which files are known by their content; more are known by size and time of change."""


class FileSource:
    """Documents of several files, file by file; their formats go by their endings, unless `reading` says it."""

    def __init__(
        self, files: Sequence[Path], named: str, text_column: str, text_unit: str, reading: Reading = AS_FOUND
    ) -> None:
        self.named, self.text_column, self.text_unit, self.reading = named, text_column, text_unit, reading
        chosen = known_format(reading.format, DOCUMENTS)
        self.files = [File(f, file_format(f, chosen), reading, lone_object=chosen is not None) for f in files]
        for path in files:
            if not path.stat().st_size:
                raise ValueError(f"{path} is empty: remove it, or fill it")

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
            if file.format in TEXTS:
                yield from read_text(file, self.text_unit)
                continue
            column = self._column(file)
            if (column == "input_ids") != self.tokenized:
                raise ValueError(
                    f"{self.files[0].path} and {file.path} differ: one has a column input_ids, one has not"
                )
            values = _values(file, column)
            if column == "input_ids" and "attention_mask" in (columns_of(file) or ()):
                values = map(real_tokens, values, _values(file, "attention_mask"))
            for number, value in enumerate(values):
                if (document := document_of(value, column, f"row {{}} of {file.path}", number)) is not None:
                    yield document

    def fingerprint(self) -> dict[str, Any]:
        """Name, size and content (where that is much: time of change) of every file, and how it is read."""
        paths = [file.path for file in self.files]
        common = Path(os.path.commonpath([path.absolute().parent for path in paths]))
        small = sum(path.stat().st_size for path in paths) <= _SMALL
        read = {name: getattr(self.reading, name) for name in ("delimiter", "encoding", "quoting")}
        return {
            "source": "files",
            "text_column": self.text_column,
            "text_unit": self.text_unit,
            **({"file_format": self.reading.format} if self.reading.format != "auto" else {}),
            **{name: value for name, value in read.items() if value is not None},
            "files": [
                [path.absolute().relative_to(common).as_posix(), path.stat().st_size, _state(path, small)]
                for path in paths
            ],
        }

    def describe(self) -> str:
        """One line for the summary of a run."""
        return self.named + (f" ({len(self.files)} files)" if len(self.files) > 1 else "")

    def _column(self, file: File) -> str:
        columns = None if file.format in TEXTS else columns_of(file)
        return (
            self.text_column if columns is None else choose_column(columns, self.text_column, str(file.path))
        )


def _values(file: File, column: str) -> Iterator[Any]:
    """The values of a column, row by row; token ids of arrow and parquet files as slices of their memory."""
    if file.format not in ARROW:
        for number, (_, record) in enumerate(FORMATS[file.format](file)):
            if not isinstance(record, str | Mapping) or (
                isinstance(record, Mapping) and column not in record
            ):
                found = record if isinstance(record, Mapping) else [str(record)[:60]]
                raise no_column(f"row {number} of {file.path}", column, found, "data.text_column")
            yield record if isinstance(record, str) else record[column]
        return
    for batch in arrow_batches(file, [column]):
        if not len(batch):
            continue
        values = batch.column(0)
        if column == "input_ids" and not values.null_count and hasattr(values, "offsets"):
            flat, offsets = values.values.to_numpy(zero_copy_only=False), values.offsets.to_numpy()
            yield from (flat[start:end] for start, end in pairwise(offsets))
        else:
            yield from values.to_pylist()


def real_tokens(ids: Any, mask: Any) -> Any:
    """The token ids of a row without its padding."""
    return None if ids is None else np.asarray(ids)[np.asarray(mask) > 0] if mask is not None else ids


def choose_column(columns: Sequence[str], text_column: str, where: str) -> str:
    """`input_ids` if there is one, else the text column.

    Raises:
        ValueError: there is neither.
    """
    for column in ("input_ids", text_column):
        if column in columns:
            return column
    raise no_column(where, text_column, columns, "data.text_column")


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


def _state(path: Path, small: bool) -> str:
    if not small:
        return f"changed {path.stat().st_mtime_ns}"
    with open(path, "rb") as opened:
        return hashlib.file_digest(opened, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
