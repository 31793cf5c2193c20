"""The text of a file: unpacked if it is compressed, decoded by its byte-order mark or a setting."""

import codecs
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from iolaus.conf.data.tables import Tables

COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
"""Compressions of text files by their endings; the ending before gives the format."""


class Reading(NamedTuple):
    """Settings for reading files, by the fields of `iolaus.conf.data.tables`.

    Example:
        >>> Reading(delimiter=";", encoding="latin-1").format
        'auto'
    """

    format: str = "auto"
    delimiter: str | None = None
    encoding: str | None = None
    quoting: bool | None = None
    header: Any = None
    word_field: int | str = 0
    tag_field: int | str | None = None


AS_FOUND = Reading()
"""Files are read as their names and contents tell."""


def reading_of(settings: Tables) -> Reading:
    """The part of a data set's settings that says how files are read."""
    return Reading(**{name: getattr(settings, name) for name in Reading._fields if hasattr(settings, name)})


class File(NamedTuple):
    """A file, its format by name, and how it is read."""

    path: Path
    format: str
    reading: Reading
    lone_object: bool = False
    """Whether a json file with a single object holds one row, not columns."""
    span: tuple[int, int | None] | None = None
    """The part to read: bytes of a text, row groups of parquet, batches of arrow; None is all."""


@contextmanager
def opened(file: File, newline: str | None = "\n") -> Iterator[TextIO]:
    """The text of a file, with `newline` as in `open`; ValueError names a wrong byte or a damaged compression."""
    path, encoding = file.path, file.reading.encoding or _encoding(file)
    if file.span and file.span[0]:  # a byte-order mark is one at the start of a file alone
        encoding = "utf-8"
    packed = path.suffix.lower() in COMPRESSED
    try:
        "".encode(encoding)
    except LookupError:
        raise ValueError(
            f"data.encoding={encoding!r} is none that Python knows; give one such as utf-8, utf-16 or latin-1"
        ) from None
    try:
        with _bytes(file) as content, io.TextIOWrapper(content, encoding, newline=newline) as text:
            try:
                yield text
            except UnicodeDecodeError as error:  # in what was read last
                place = "" if packed else f" at offset {content.tell() - len(error.object) + error.start}"
                raise ValueError(
                    f"{path} is not {'UTF-8' if encoding == 'utf-8-sig' else encoding}: byte "
                    f"0x{error.object[error.start]:02x}{place}. Convert it, for instance with iconv -f LATIN1 -t UTF-8, "
                    "or set data.encoding"
                ) from None
    except OSError as error:
        if not packed:
            raise
        raise ValueError(f"{path} is no readable {path.suffix[1:]} file: {error}") from error


def _bytes(file: File) -> Any:
    """The bytes of a file or of its span."""
    if file.span is None:
        return binary(file.path)
    first, stop = file.span
    assert stop is not None
    with open(file.path, "rb") as whole:
        whole.seek(first)
        return io.BytesIO(whole.read(stop - first))


def binary(path: Path) -> Any:
    """The bytes of a file, unpacked if its ending is that of a compression."""
    if path.suffix.lower() not in COMPRESSED:
        return open(path, "rb")
    import pyarrow

    return pyarrow.input_stream(str(path), compression=COMPRESSED[path.suffix.lower()])


def _encoding(file: File) -> str:
    """UTF-16 for a table with its byte-order mark, as spreadsheets write it; else UTF-8."""
    if file.format in ("csv", "tsv"):
        with binary(file.path) as content:
            if content.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                return "utf-16"
    return "utf-8-sig"
