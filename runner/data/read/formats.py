"""Readers of the file formats: what columns a file has, and the values of one, streamed.

Every error names the file and the byte, line or row.
"""

import csv
import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple


class Format(NamedTuple):
    """How files of a format are read."""

    columns: Callable[[Path], list[str] | None]
    """Names of the columns, found without reading the whole file where that can be; none in a list of plain strings."""
    values: Callable[[Path, str], Iterator[Any]]
    """Values of a column, row by row."""


def read_text(path: Path, unit: str) -> Iterator[str]:
    """Documents of a UTF-8 text: paragraphs with blank lines between, lines, or the whole `file`.

    Raises:
        ValueError: it is not UTF-8; the first wrong byte is named.
    """
    if unit == "file":
        with open(path, "rb") as file:
            if text := decode(file.read(), path, 0).strip():
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
            yield number, decode(line, path, offset)
            offset += len(line)


def decode(content: bytes, path: Path, offset: int) -> str:
    """The text of what stands at `offset` of a file.

    Raises:
        ValueError: it is not UTF-8; file and byte are named.
    """
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
    text = decode(path.read_bytes(), path, 0)
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


def _csv_reader(path: Path) -> Iterator[list[str]]:
    """Rows of fields, the header first; each is as long as the header."""
    csv.field_size_limit(2**31 - 1)
    kind = path.suffix[1:].lower()
    reader = csv.reader(
        (line for _, line in _lines(path)), delimiter="\t" if kind == "tsv" else ",", strict=True
    )
    header: list[str] | None = None
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ValueError(f"{path}, line {reader.line_num}: no valid {kind}: {error}") from None
        header = header or row
        if row and len(row) != len(header):
            raise ValueError(
                f"{path}, line {reader.line_num}: {len(row)} fields where the header has {len(header)}"
            )
        if row:
            yield row


def _csv_columns(path: Path) -> list[str]:
    return next(_csv_reader(path), [])


def _csv_records(path: Path) -> Iterator[dict[str, str]]:
    rows = _csv_reader(path)
    header = next(rows, [])
    return (dict(zip(header, row, strict=True)) for row in rows)


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


TEXT_FORMATS = (".txt", ".md")
"""Formats without columns, read by `read_text`."""

_ARROW = Format(_arrow_columns, _arrow_values)

FORMATS = {
    ".json": Format(_record_columns(_json_records), _record_values(_json_records)),
    ".jsonl": Format(_record_columns(_jsonl_records), _record_values(_jsonl_records)),
    ".csv": Format(_csv_columns, _record_values(_csv_records)),
    ".tsv": Format(_csv_columns, _record_values(_csv_records)),
    ".parquet": _ARROW,
    ".arrow": _ARROW,
}
"""Formats with columns, by the ending of the file's name."""
