"""Rows of csv and tsv files; delimiter and quotes are found in the file unless settings give them."""

import csv
import re
from collections.abc import Iterator, Mapping
from typing import Any

from iolaus.runner.data.read.opened import File, opened

DELIMITERS = ",;\t|"
"""Delimiters that are recognised in csv files."""

_SAMPLE = 1 << 20  # characters that are read to find the dialect


def delimited(file: File) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The rows below the line of column names, each with its place; ValueError names an empty file or a wrong line."""
    csv.field_size_limit(2**31 - 1)
    dialect = _dialect(file)
    with opened(file, newline="") as text:
        reader = csv.reader(text, strict=True, **dialect)
        rows = filter(None, reader)
        try:
            if (header := file.reading.header or next(rows, None)) is None:
                raise ValueError(f"{file.path} is empty: expected a line with the names of the columns")
            where = "data.header" if file.reading.header else "the header"
            for row in rows:
                if len(row) != len(header):
                    raise ValueError(
                        f"{file.path}, line {reader.line_num}: {len(row)} fields where {where} has {len(header)} "
                        f"(data.delimiter={dialect['delimiter']!r})"
                    )
                yield f"line {reader.line_num}", dict(zip(header, row, strict=True))
        except csv.Error as error:
            raise ValueError(
                f"{file.path}, line {reader.line_num}: no valid {file.format}: {error}; data.quoting=false takes quotes "
                "as they stand"
            ) from None


def _dialect(file: File) -> dict[str, Any]:
    """Delimiter and quoting for `csv.reader`."""
    delimiter, quoting = file.reading.delimiter, file.reading.quoting
    if delimiter is not None and len(delimiter) != 1:
        raise ValueError(f"data.delimiter={delimiter!r}: expected one character, such as ';'")
    with opened(file, newline="") as text:
        sample = text.read(_SAMPLE)
    if delimiter is None and file.format == "csv":
        header = re.sub(r'"[^"]*"', "", sample.lstrip().partition("\n")[0])
        delimiter = max(DELIMITERS, key=header.count)
    delimiter = delimiter or "\t"
    if quoting is None:
        quoting = file.format == "csv" or _is_quoted(sample, delimiter)
    return {"delimiter": delimiter, "quoting": csv.QUOTE_MINIMAL if quoting else csv.QUOTE_NONE}


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
