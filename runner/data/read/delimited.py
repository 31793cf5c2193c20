"""Rows of csv and tsv files."""

import csv
from collections.abc import Iterator, Mapping
from typing import Any

from tiryns.runner.data.read.bad_rows import BadRow
from tiryns.runner.data.read.dialects import dialect_of
from tiryns.runner.data.read.opened import LONGEST, File, opened, wrong_byte


def delimited(file: File) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The rows below the line of column names, each with its place; ValueError names an empty file or a wrong line."""
    csv.field_size_limit(LONGEST)
    dialect = file.dialect or dialect_of(file)
    quoting: Any = csv.QUOTE_MINIMAL if dialect.quoting else csv.QUOTE_NONE
    with opened(file._replace(dialect=dialect), newline="") as text:
        reader = csv.reader(text, strict=True, delimiter=dialect.delimiter, quoting=quoting)
        rows = _rows(file, reader)
        header = dialect.names or next(rows, None)
        if header and header[0].startswith("sep=") and not any(header[1:]):  # Excel's line with the delimiter
            header = next(rows, None)
        if header is None:
            raise ValueError(f"{file.path} is empty: expected a line with the names of the columns")
        if twice := next((name for name in header if name and list(header).count(name) > 1), None):
            raise ValueError(
                f"{file.path} has two columns {twice!r}: which one is meant cannot be told; rename one"
            )
        where = "data.header" if dialect.names else "the header"
        if dialect.names and not file.reading.header:
            where = f"the header guessed for this file without one ({', '.join(header)}; data.header sets another)"
        for row in rows:
            place = f"line {reader.line_num}"
            with file.bad.row():
                if len(row) != len(header):
                    problem = f"{len(row)} fields where {where} has {len(header)} (data.delimiter={dialect.delimiter!r})"
                    raise BadRow(f"{file.path}, {place}", problem, "wrong number of fields")
                if file.bad.skip and (byte := wrong_byte("".join(row))):
                    problem = f"byte {byte} is not {dialect.encoding}"
                    raise BadRow(f"{file.path}, {place}", problem, "undecodable")
                yield place, dict(zip(header, row, strict=True))


def _rows(file: File, reader: Any) -> Iterator[list[str]]:
    """The rows that are not empty, of which those of delimiters alone are counted.

    A quote that is not closed is an error, as all that is behind it would be lost.
    """
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
            problem = f"no valid {file.format}: {error}; data.quoting=false takes quotes as they stand"
            bad = BadRow(f"{file.path}, line {reader.line_num}", problem, "wrong quotes")
            if "unexpected end of data" in str(error):
                raise bad from None
            file.bad.note(bad)
