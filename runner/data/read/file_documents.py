"""Documents of files, streamed file by file: a column of tables, or parts of texts."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise, repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiryns.conf.values import count_of
from tiryns.runner.data.read import formats
from tiryns.runner.data.read.arrow_files import arrow_batches, arrow_sizes
from tiryns.runner.data.read.content import COMPRESSED
from tiryns.runner.data.read.delimited import dialect_of
from tiryns.runner.data.read.formats import ARROW, TEXTS
from tiryns.runner.data.read.opened import AS_FOUND, LONGEST, Dialect, File, Reading, is_utf8, too_long

_LARGE = 1 << 28
"""Bytes of the largest file that one process reads whole: its token ids have to fit into memory."""


Documents = Iterator[Any]
"""Texts, or token ids, of a source."""


class Piece(NamedTuple):
    """Some documents of a source; all pieces, one after the other, give the documents of the source.

    Example:
        >>> Piece(place=None, num_bytes=None)  # of a source that cannot be cut
        Piece(place=None, num_bytes=None)
    """

    place: Any
    """The argument of the source's `documents_of`; None is the whole source."""
    num_bytes: int | None
    """The number of bytes on disk; None if it is unknown or too large for one process."""

    @staticmethod
    def all_of(source: object, num_bytes: int) -> "list[Piece]":
        """Returns pieces of about `num_bytes` of a source, or the whole source as one piece."""
        pieces: list[Piece] = source.pieces(num_bytes) if hasattr(source, "pieces") else [WHOLE]
        return pieces

    def documents(self, source: Any) -> Documents:
        """Reads the documents of the piece from its source."""
        documents: Documents = source.documents() if self.place is None else source.documents_of(self.place)
        return documents


WHOLE = Piece(None, None)
"""The piece that is a whole source."""


def cut_file(file: File, unit: str, num_bytes: int) -> Iterator[Piece]:
    """Yields a file in pieces, if possible of about `num_bytes`. A place is the file with a span; texts have a `unit`."""
    size, texts = file.path.stat().st_size, file.format in TEXTS
    plain = is_utf8(file.given_encoding or "utf-8")
    is_compressed = file.path.suffix.lower() in COMPRESSED
    by_line = file.format == "jsonl" or (texts and unit != "file")
    if file.format in ARROW:
        first, total = 0, 0
        for number, part in enumerate(arrow_sizes(file), 1):
            total += part
            if total >= num_bytes:
                yield Piece(file._replace(span=(first, number)), total)
                first, total = number, 0
        yield Piece(file._replace(span=(first, None)), total)
    # ends of lines are found without decoding what is before
    elif size > num_bytes and plain and by_line and not is_compressed:
        bounds = [0, *_bounds(file.path, size, num_bytes, blank=texts and unit == "paragraph")]
        for first, stop in pairwise(bounds):
            yield Piece(file._replace(span=(first, stop)), stop - first)
    else:
        yield Piece(file, size if size <= _LARGE else None)


def _bounds(path: Path, size: int, num_bytes: int, blank: bool) -> Iterator[int]:
    """Yields offsets of line ends, or of ends of `blank` lines, about `num_bytes` apart, up to the end of the file."""
    stop = 0
    with open(path, "rb") as file:
        while stop < size:
            file.seek(min(stop + num_bytes, size))
            line = file.readline(4 * LONGEST + 1)  # the rest of one
            if len(line) > 4 * LONGEST:  # no character has more than four bytes
                raise too_long(path, "a line")
            while blank and line:
                line = file.readline()
                if not line.decode("utf-8", "replace").rstrip():
                    break
            stop = file.tell()
            yield stop


_SMALL = 64 << 20  # bytes up to which the fingerprint is of the files' contents, not of their times of change


class FileSource:
    """Documents of several files, file by file; the ending of a file gives its format, unless `reading` does.

    Empty txt and md files beside others are left out.
    """

    def __init__(
        self, files: Sequence[Path], spec: str, text_column: str, text_unit: str, reading: Reading = AS_FOUND
    ) -> None:
        self.spec, self.text_column, self.text_unit, self.reading = spec, text_column, text_unit, reading
        self.empty = formats.empty_texts({str(path): path.stat().st_size for path in files})
        files = [path for path in files if str(path) not in self.empty]
        self.files = formats.files_of(files, reading, formats.DOCUMENTS, lone_object=reading.format != "auto")
        self._dialects: dict[Path, Dialect] = {}

    @cached_property
    def tokenized(self) -> bool:
        """Whether the first file has a column `input_ids`."""
        file = self._with_dialect(self.files[0])
        return choose_column(formats.columns_of(file), self.text_column, str(file.path)) == "input_ids"

    def documents(self) -> Documents:
        """Returns the documents of all files, without blank ones; ValueError names the wrong file, byte or line."""
        for file in self.files:
            yield from self.documents_of(file)

    def tables(self) -> dict[str, Dialect]:
        """Returns the dialects of its csv and tsv files, by path."""
        return {str(file.path): file.dialect for file in map(self._with_dialect, self.files) if file.dialect}

    def _with_dialect(self, file: File) -> File:
        """Returns the file with its dialect, which is detected once."""
        if file.format not in ("csv", "tsv") or file.dialect:
            return file
        if file.path not in self._dialects:
            self._dialects[file.path] = dialect_of(file)
        return file._replace(dialect=self._dialects[file.path])

    def documents_of(self, file: File) -> Documents:
        """Returns the documents of a file, or of the span of one."""
        file = self._with_dialect(file)
        if file.format in formats.TEXTS:
            yield from formats.read_text(file, self.text_unit)
            return
        columns = formats.columns_of(file._replace(span=None))
        column = choose_column(columns, self.text_column, str(file.path))
        if (column == "input_ids") != self.tokenized:
            both = f"{self.files[0].path} and {file.path}"
            raise ValueError(f"{both} differ: one has a column input_ids, one has not")
        has_mask = column == "input_ids" and "attention_mask" in (columns or ())
        masks = _values(file, "attention_mask") if has_mask else repeat(None)
        yield from real_documents(zip(_values(file, column), masks, strict=False), column, str(file.path))

    def pieces(self, num_bytes: int) -> list[Piece]:
        """Returns pieces of about `num_bytes`, files or parts of files, that together have all documents."""
        return [piece for file in self.files for piece in cut_file(file, self.text_unit, num_bytes)]

    def fingerprint(self) -> Mapping[str, object]:
        """Returns each file's name, size and content hash (time of change for much data), and how files are read."""
        paths = [file.path for file in self.files]
        common = Path(os.path.commonpath([path.absolute().parent for path in paths]))
        small = sum(path.stat().st_size for path in paths) <= _SMALL
        read = {"file_format": self.reading.format, **self.reading._asdict()}
        names = ("file_format", "delimiter", "encoding", "quoting", "header")
        files = []
        for path in paths:
            digest = hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest() if small else None
            state = digest or f"changed {path.stat().st_mtime_ns}"
            files.append([path.absolute().relative_to(common).as_posix(), path.stat().st_size, state])
        return {
            "source": "files", "text_column": self.text_column, "text_unit": self.text_unit,
            **{name: read[name] for name in names if read[name] not in (None, "auto")}, "files": files,
        }  # fmt: skip

    def describe(self) -> str:
        """One line for the summary of a run."""
        notes = [f"{len(self.files)} files"] * (len(self.files) > 1)
        if self.empty:
            notes.append(f"{count_of(len(self.empty), 'empty file')} left out: {self.empty[0]}")
        return self.spec + (f" ({'; '.join(notes)})" if notes else "")


def _values(file: File, column: str) -> Iterator[Any]:
    """Yields the values of a column, row by row. Token ids of arrow and parquet files are slices of a batch's memory."""
    if file.format not in formats.ARROW:
        for number, (_, record) in enumerate(formats.FORMATS[file.format](file)):
            if isinstance(record, str):
                yield record
            elif not isinstance(record, Mapping):
                form = "expected a text, or an object with named columns"
                raise ValueError(f"row {number} of {file.path}: {form}, found {record!r:.60}")
            elif column in record:
                yield record[column]
            else:
                raise formats.no_column(f"row {number} of {file.path}", column, record, "data.text_column")
        return
    for batch in filter(len, arrow_batches(file, [column])):
        values = batch.column(0)
        if column == "input_ids" and not values.null_count and hasattr(values, "offsets"):
            import pyarrow.compute as pc

            flat = values.flatten().to_numpy(zero_copy_only=False)  # views of lists may lie in any order
            ends = np.append(0, np.cumsum(pc.list_value_length(values).to_numpy()))
            yield from (flat[start:end] for start, end in pairwise(ends))
        else:
            yield from values.to_pylist()


def choose_column(columns: Sequence[str] | None, text_column: str, where: str) -> str:
    """Returns `input_ids` if `columns` has it, else `text_column`; ValueError if `columns` is not None but lacks both."""
    if columns is None:
        return text_column
    for column in ("input_ids", text_column):
        if column in columns:
            return column
    raise formats.no_column(where, text_column, columns, "data.text_column")


def real_documents(values: Iterable[tuple[object, object]], column: str, where: str) -> Documents:
    """Yields the documents of a column without blank ones; raises ValueError, naming the row, for a wrong value.

    `values` are pairs of a value and its attention mask, which is 0 at padding and may be None.
    """
    for number, (value, mask) in enumerate(values):
        if value is not None and column == "input_ids":
            ids = _ids(value, mask)
            if ids is None:
                message = f"input_ids is no flat list of integers: {str(value)[:60]}"
                if mask is not None:
                    message += f", or attention_mask has another length: {str(mask)[:60]}"
                raise ValueError(f"row {number} of {where}: {message}")
            if len(ids):
                yield ids
        elif isinstance(value, str):
            if len(value) > LONGEST:
                problem = f"row {number} of {where}: a text of more than {LONGEST:,} characters: cut it"
                raise ValueError(problem)
            if value and not value.isspace():
                yield value
        elif value is not None:
            message = f"column {column!r} holds {type(value).__name__}, not text"
            raise ValueError(f"row {number} of {where}: {message}")


def _ids(value: object, mask: object) -> NDArray[np.integer] | None:
    """Returns token ids as an array, without masked positions; None unless they are a flat list of integers."""
    try:
        ids = np.asarray(value)
        if mask is not None:
            ids = ids[np.asarray(mask) > 0]
    except (ValueError, IndexError, TypeError):
        return None
    return ids if ids.ndim == 1 and (not len(ids) or ids.dtype.kind in "iu") else None
