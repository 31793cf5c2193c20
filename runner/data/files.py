"""Documents from files: txt, md, json, jsonl, csv, tsv, parquet, arrow, and folders saved by `datasets`."""

import csv
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

TEXT_UNITS = ("paragraph", "line", "file")
"""What one document can be in txt and md files."""

_SMALL_FILE = 64 << 20
"""Bytes up to which a file is known by its content, above by size and time of change."""


class FileSource:
    """Documents of several files of known formats, file by file."""

    def __init__(self, files: list[Path], named: Path, text_column: str, text_unit: str) -> None:
        self.files, self.named = files, named
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
            if file.suffix.lower() in _TEXT_FORMATS:
                yield from _read_text(file, self.text_unit)
                continue
            column = self._column(file)
            if (column == "input_ids") != self.tokenized:
                raise ValueError(
                    f"{self.files[0]} and {file} differ: one has a column input_ids, one has not"
                )
            for number, value in enumerate(_FORMATS[file.suffix.lower()].values(file, column)):
                if (document := document_of(value, column, f"row {{}} of {file}", number)) is not None:
                    yield document

    def fingerprint(self) -> dict[str, Any]:
        """Name, size and content (of large files: time of change) of every file, and how it is read."""
        common = self.files[0].parent if len(self.files) == 1 else _common_folder(self.files)
        return {
            "source": "files",
            "text_column": self.text_column,
            "text_unit": self.text_unit,
            "files": [[file.relative_to(common).as_posix(), *_identity(file)] for file in self.files],
        }

    def describe(self) -> str:
        """One line for the summary of a run."""
        return str(self.named) + (f" ({len(self.files)} files)" if len(self.files) > 1 else "")

    def _column(self, file: Path) -> str:
        if file.suffix.lower() in _TEXT_FORMATS:
            return "text"
        columns = _FORMATS[file.suffix.lower()].columns(file)
        if columns is None:  # a json list of plain strings
            return self.text_column
        return choose_column(columns, self.text_column, str(file))


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
    inside = (file for file in path.rglob("*") if file.is_file() and is_known_format(file))
    visible = [file for file in inside if not any(p.startswith(".") for p in file.relative_to(path).parts)]
    if not visible:
        raise ValueError(f"the folder {path} holds no file of a known format: {', '.join(_known())}")
    return sorted(visible)


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


def _read_text(path: Path, unit: str) -> Iterator[str]:
    if unit == "file":
        with open(path, "rb") as file:
            if text := _decode(file.read(), path, 0).strip():
                yield text
        return
    paragraph: list[str] = []
    for _, line in _lines(path):
        line = line.rstrip()
        if line and unit == "paragraph":
            paragraph.append(line)
        elif line:
            yield line
        elif paragraph:
            yield "\n".join(paragraph)
            paragraph = []
    if paragraph:
        yield "\n".join(paragraph)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Line number from 1, and line, of a UTF-8 file."""
    offset = 0
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            yield number, _decode(line, path, offset)
            offset += len(line)


def _decode(content: bytes, path: Path, offset: int) -> str:
    try:
        return content.decode("utf-8-sig" if offset == 0 else "utf-8")
    except UnicodeDecodeError as error:
        byte = content[error.start]
        raise ValueError(
            f"{path} is not UTF-8: byte 0x{byte:02x} at offset {offset + error.start}. Convert it, for instance with "
            f"iconv -f LATIN1 -t UTF-8"
        ) from None


def _json_records(path: Path) -> Iterator[Any]:
    """Records of a json file: a list, an object with a list `data`, or one record a line."""
    text = _decode(path.read_bytes(), path, 0)
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data" and text.lstrip().startswith("{"):
            yield from _jsonl_records(path)
            return
        raise ValueError(
            f"{path} is no valid JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    if isinstance(content, dict) and isinstance(content.get("data"), list):
        content = content["data"]
    if isinstance(content, dict) and content and all(isinstance(column, list) for column in content.values()):
        content = [dict(zip(content, row, strict=False)) for row in zip(*content.values(), strict=False)]
    if not isinstance(content, list):
        raise ValueError(f"{path} holds no list of records: expected [{{...}}, ...] or {{'data': [...]}}")
    yield from content


def _jsonl_records(path: Path) -> Iterator[Any]:
    for number, line in _lines(path):
        if line.isspace() or not line:
            continue
        try:
            yield json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(
                f"{path}, line {number}: no valid JSON: {error.msg} at column {error.colno}"
            ) from None


def _csv_records(path: Path) -> Iterator[dict[str, str]]:
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    lines = (line for _, line in _lines(path))
    reader = csv.DictReader(lines, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", strict=True)
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ValueError(f"{path}, line {reader.line_num}: no valid {path.suffix[1:]}: {error}") from None
        yield row


def _record_columns(records: Callable[[Path], Iterator[Any]]) -> Callable[[Path], list[str] | None]:
    def columns(path: Path) -> list[str] | None:
        first = next(records(path), None)
        if isinstance(first, str):
            return None
        if not isinstance(first, dict):
            raise ValueError(
                f"{path} holds no records: expected objects with named columns, found {str(first)[:60]}"
            )
        return [name for name in first if name is not None]

    return columns


def _record_values(records: Callable[[Path], Iterator[Any]]) -> Callable[[Path, str], Iterator[Any]]:
    def values(path: Path, column: str) -> Iterator[Any]:
        for number, record in enumerate(records(path)):
            if isinstance(record, str):
                yield record
            elif isinstance(record, dict) and column in record:
                yield record[column]
            else:
                found = ", ".join(map(str, record)) if isinstance(record, dict) else str(record)[:60]
                raise ValueError(f"row {number} of {path} has no column {column!r}; it has: {found}")

    return values


def _arrow_batches(path: Path, column: str | None) -> Iterator[Any]:
    """Record batches of a parquet or arrow file; with `column` None one without rows, for its schema."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if path.suffix.lower() == ".parquet":
            with pq.ParquetFile(path) as file:
                if column is None:
                    yield file.schema_arrow.empty_table()
                else:
                    yield from file.iter_batches(columns=[column])
            return
        with pa.memory_map(str(path)) as mapped:
            try:
                reader: Any = pa.ipc.open_file(mapped)
                batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
            except pa.ArrowInvalid:  # `datasets` writes the streaming kind
                mapped.seek(0)
                reader = batches = pa.ipc.open_stream(mapped)
            yield from (
                [reader.schema.empty_table()] if column is None else (b.select([column]) for b in batches)
            )
    except (pa.ArrowException, OSError) as error:
        raise ValueError(
            f"{path} is no readable {path.suffix[1:]} file: {str(error).splitlines()[0]}"
        ) from error


def _arrow_columns(path: Path) -> list[str]:
    return list(next(_arrow_batches(path, None)).schema.names)


def _arrow_values(path: Path, column: str) -> Iterator[Any]:
    for batch in _arrow_batches(path, column):
        values = batch.column(0)
        if column == "input_ids" and not values.null_count and hasattr(values, "offsets"):
            flat, offsets = values.values.to_numpy(zero_copy_only=False), values.offsets.to_numpy()
            yield from (flat[start:end] for start, end in pairwise(offsets))
        else:
            yield from values.to_pylist()


class _Format(NamedTuple):
    columns: Callable[[Path], list[str] | None]
    values: Callable[[Path, str], Iterator[Any]]


_TEXT_FORMATS = (".txt", ".md")
_ARROW = _Format(_arrow_columns, _arrow_values)
_FORMATS = {
    suffix: _Format(_record_columns(records), _record_values(records))
    for suffix, records in (
        (".json", _json_records),
        (".jsonl", _jsonl_records),
        (".csv", _csv_records),
        (".tsv", _csv_records),
    )
} | {".parquet": _ARROW, ".arrow": _ARROW}


def _known() -> list[str]:
    return list(chain(_TEXT_FORMATS, _FORMATS))


def _load_json(path: Path) -> Any:
    return json.loads(path.read_bytes())


def _common_folder(files: list[Path]) -> Path:
    import os

    return Path(os.path.commonpath([file.parent for file in files]))


def _identity(file: Path) -> tuple[int, str]:
    status = file.stat()
    if status.st_size > _SMALL_FILE:
        return status.st_size, f"changed {status.st_mtime_ns}"
    with open(file, "rb") as opened:
        return status.st_size, hashlib.file_digest(
            opened, lambda: hashlib.blake2b(digest_size=16)
        ).hexdigest()
