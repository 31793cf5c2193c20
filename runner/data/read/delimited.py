"""Rows of csv and tsv files: the delimiter and the quotes are found in the file, unless settings say them."""

import csv
import re
from collections.abc import Iterator, Mapping
from typing import Any

from iolaus.runner.data.read.opened import File, opened

DELIMITERS = ",;\t|"
"""What may stand between the fields of a csv file."""

_SAMPLE = 1 << 20
"""Characters from which is told whether the fields of a tsv file are quoted."""


def delimited(file: File) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The rows below the line with the names of the columns, each with its place.

    Raises:
        ValueError: the file is empty, or a line has not as many fields as the first one, or wrong quotes; it is named.
    """
    csv.field_size_limit(2**31 - 1)
    dialect, header = _dialect(file), None
    with opened(file, newline="") as text:
        reader = csv.reader(text, strict=True, **dialect)
        try:
            for row in filter(None, reader):
                if header is None:
                    header = row
                elif len(row) == len(header):
                    yield f"line {reader.line_num}", dict(zip(header, row, strict=True))
                else:
                    raise ValueError(
                        f"{file.path}, line {reader.line_num}: {len(row)} fields where the header has {len(header)} "
                        f"(data.delimiter={dialect['delimiter']!r})"
                    )
        except csv.Error as error:
            raise ValueError(
                f"{file.path}, line {reader.line_num}: no valid {file.format}: {error}; data.quoting=false takes quotes "
                "as they stand"
            ) from None
    if header is None:
        raise ValueError(f"{file.path} is empty: expected a line with the names of the columns")


def _dialect(file: File) -> dict[str, Any]:
    """The delimiter and the quotes, as `csv.reader` takes them."""
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
    """Whether quotes enclose fields of a tsv file, rather than being part of the text: none is left when fields are gone.

    Fields that go over several lines are quoted only where lines that are cut at each delimiter have not all as many.
    """
    whole = len(sample) < _SAMPLE
    lines = [line for line in sample.split("\n")[: None if whole else -1] if line.strip()]
    even = len({line.count(delimiter) for line in lines}) < 2
    tab = re.escape(delimiter)
    other, end = (f'[^"\n{tab}]', "") if even else ('[^"]', "" if whole else r"|\Z")
    field = f'(^|{tab})"{other}*(?:""{other}*)*(?:"(?={tab}|\r?$){end})'
    return '"' not in re.sub(field, r"\1", "\n".join(lines), flags=re.MULTILINE)
