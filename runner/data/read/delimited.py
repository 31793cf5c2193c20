"""Reads rows of csv and tsv files, and detects delimiter, quotes and Unicode.

A setting replaces the detection. An ambiguous file is an error that lists the choices, not a guess.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from tiryns.runner.data.read.bad_rows import AdvisedError, BadRow
from tiryns.runner.data.read.content import check_text, likely_encodings
from tiryns.runner.data.read.opened import DELIMITERS, LONGEST, Dialect, File, is_mostly_utf8, open_text

_SAMPLE = 1 << 20  # characters that are read to find the dialect
_ROWS = 1000  # rows of these that are compared


def delimited_rows(file: File) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yields the rows below the header, each with its place; ValueError for an empty file or a wrong line."""
    csv.field_size_limit(LONGEST)
    dialect = file.dialect or dialect_of(file)
    file = file._replace(dialect=dialect)
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if dialect.quoting else csv.QUOTE_NONE
    with open_text(file, newline="") as text:
        reader = csv.reader(text, strict=True, delimiter=dialect.delimiter, quoting=quoting)
        rows = _read_rows(file, reader)
        header = dialect.names or next(rows, None)
        if header and header[0].startswith("sep=") and not any(header[1:]):  # Excel's line with the delimiter
            header = next(rows, None)
        if header is None:
            raise ValueError(f"{file.path} is empty: expected a line with the names of the columns")
        if twice := next((name for name in header if name and list(header).count(name) > 1), None):
            problem = f"{file.path} has two columns {twice!r}: which one is meant cannot be told; rename one"
            raise ValueError(problem)
        where = "data.header" if dialect.names else "the header"
        for row in rows:
            place = f"line {reader.line_num}"
            with file.bad.row():
                if len(row) != len(header):
                    problem = f"{len(row)} fields where {where} has {len(header)} (data.delimiter={dialect.delimiter!r})"
                    raise BadRow(f"{file.path}, {place}", problem, "wrong number of fields")
                if problem := file.wrong_byte("".join(row)):
                    raise BadRow(f"{file.path}, {place}", problem, "undecodable")
                if len(row) > 1 and [value.lstrip("\ufeff") for value in row] == header:
                    file.bad.pass_over(f"{file.path}, {place}", "header within the table")  # of joined tables
                else:
                    yield place, dict(zip(header, row, strict=True))


def _read_rows(file: File, reader: Any) -> Iterator[list[str]]:
    """Yields the rows that are not empty; rows with only delimiters are counted as left out."""
    while True:
        try:
            row = next(reader)
            if any(map(str.strip, row)):
                yield row
            elif len(row) > 1:
                file.bad.pass_over(f"{file.path}, line {reader.line_num}")
        except StopIteration:
            return
        except csv.Error as error:
            problem = f"no valid {file.format}: {error}; data.quoting=false reads quotes as text"
            bad = BadRow(f"{file.path}, line {reader.line_num}", problem, "wrong quotes")
            if "unexpected end of data" in str(error):  # all that is behind an open quote would be lost
                raise bad from None
            file.bad.note(bad)


def dialect_of(file: File, columns: Sequence[str] = ()) -> Dialect:
    """Returns the dialect of a csv or tsv file, whose `columns` a task reads.

    Raises ValueError for a delimiter of several characters, and if encoding, delimiter or the names of the columns
    are ambiguous.
    """
    reading = file.reading
    preset = reading.delimiter
    if preset is not None and len(preset) != 1:
        raise ValueError(f"data.delimiter={preset!r}: expected one character, such as ';'")
    encoding = file.given_encoding or find_encoding(file)
    with open_text(file._replace(reading=reading._replace(encoding=encoding)), newline="") as text:
        sample = text.read(_SAMPLE)
    delimiter = preset or "\t"
    if preset is None and file.format == "csv":
        delimiter = _find_delimiter(file, sample, columns)
    quoting = reading.quoting
    if quoting is None:
        quoting = file.format == "csv" or _is_quoted(sample, delimiter)
    names = reading.header and [str(name) for name in reading.header]
    if names is None and columns:
        _check_names(file, _rows(sample, delimiter, quoting), columns)
    return Dialect(delimiter, encoding, quoting, names)


def find_encoding(file: File) -> str:
    """Returns UTF-8, or UTF-16 if a byte-order mark says so.

    For other bytes raises ValueError with the encodings that fit, the likeliest first. If at least half of the characters
    beyond ASCII are UTF-8, the file is UTF-8 with errors.
    """
    if unicode := file.mark():
        return unicode
    check_text(file.path)
    content = file.sample()
    if is_mostly_utf8(content):
        return "utf-8"
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        place = f"byte 0x{content[error.start]:02x} at offset {error.start}"
    names = likely_encodings(content)
    choices = " or ".join(f"data.encoding={name}" for name in names) or "data.encoding"
    cure = {"encoding": names[0]} if names else {}
    raise AdvisedError(f"{file.path} is not UTF-8 ({place}): set {choices}", **cure)


def _find_delimiter(file: File, sample: str, columns: Sequence[str]) -> str:
    """Returns the delimiter in the header that cuts most rows into as many fields as the header has.

    Ties go to the most frequent delimiter in the header, then to one that gives the names of `columns`, then to one
    that is not always followed by a space, unlike commas in a sentence. Raises ValueError for a remaining tie.
    """
    line = re.sub(r'"[^"]*"', "", sample.lstrip().partition("\n")[0])
    counts = {delimiter: line.count(delimiter) for delimiter in DELIMITERS if delimiter in line}
    if len(counts) < 2:
        return next(iter(counts), ",")
    quoting = file.reading.quoting is not False
    scores = {}
    for one, count in counts.items():
        rows = _rows(sample, one, quoting)
        makes_names = len(set(columns) & {*(rows or [[]])[0]})
        evenness = round(sum(len(row) == len(rows[0]) for row in rows) / len(rows), 2) if rows else 0.0
        scores[one] = (evenness, count, makes_names, sample.count(one) > sample.count(f"{one} "))
    best = max(scores.values())
    alike = [one for one in scores if scores[one] == best]
    if len(alike) > 1:
        choices = " or ".join(f"data.delimiter={one!r}" for one in alike)
        raise AdvisedError(f"{file.path} may be cut by several delimiters: set {choices}", delimiter=alike[0])
    return alike[0]


def _rows(sample: str, delimiter: str, quoting: bool) -> list[list[str]]:
    """Returns the first non-empty rows of a sample, without the last row if the end of the sample may have cut it."""
    quotes: Literal[0, 3] = csv.QUOTE_MINIMAL if quoting else csv.QUOTE_NONE
    rows: list[list[str]] = []
    csv.field_size_limit(LONGEST)
    reader = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter, quoting=quotes)
    with suppress(csv.Error, StopIteration):
        while len(rows) <= _ROWS:
            if any(map(str.strip, row := next(reader))):
                rows.append(row)
    return rows[:-1] if len(sample) == _SAMPLE and len(rows) <= _ROWS else rows


def _check_names(file: File, rows: list[list[str]], columns: Sequence[str]) -> None:
    """Raises ValueError if the first line, which should name the columns, has a value that its column repeats."""
    first, below = (rows[0] if rows else []), rows[1:]
    if not below or set(columns) & {*first}:
        return
    cells = [[row[i] for row in below if len(row) > i] for i in range(len(first))]
    matches = [(name, column) for name, column in zip(first, cells, strict=True) if name and name in column]
    values = [name for name, column in matches if share_repeated(column) > 0.5]
    if values:
        example = [*columns, *(f"column_{i}" for i in range(len(columns) + 1, len(first) + 1))][: len(first)]
        raise AdvisedError(
            f"{file.path}: line 1 should name the columns, and {values[0]!r} is a value of other lines too. Name all "
            f"{len(first)} in their order, such as data.header=[{','.join(example)}]",
            header=example,
        )


def share_repeated(column: list[str]) -> float:
    """Returns the share of values that a column has several times."""
    return sum(number for number in Counter(column).values() if number > 1) / max(len(column), 1)


def _is_quoted(sample: str, delimiter: str) -> bool:
    """Whether every quote of a tsv file belongs to a quoted field, so that none is part of the text."""
    whole = len(sample) < _SAMPLE
    lines = [line for line in sample.split("\n")[: None if whole else -1] if line.strip()]
    even = len({line.count(delimiter) for line in lines}) < 2
    tab = re.escape(delimiter)
    # A quoted field may span lines only if the lines do not all have as many delimiters.
    other, end = (f'[^"\n{tab}]', "") if even else ('[^"]', "" if whole else r"|\Z")
    field = f'(^|{tab})"{other}*(?:""{other}*)*(?:"(?={tab}|\r?$){end})'
    return '"' not in re.sub(field, r"\1", "\n".join(lines), flags=re.MULTILINE)
