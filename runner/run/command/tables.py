"""Rows as csv, tsv, lines of json or parquet."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

from tiryns.runner.run.files import replaceable, replacing, writing

ENDINGS = dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl")
ENDINGS |= {".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"}
"""Formats of rows, by the ending of a file's name."""


def write_rows(
    rows: Iterable[Mapping[str, object]], out: Path | None, kind: str, separator: str | None = None
) -> None:
    """Writes rows in a format of `ENDINGS` to a file that appears when all are written, or to the screen.

    In csv and tsv lists of texts are joined by the separator, if there is one, and other lists and objects are JSON.
    Rows of parquet are held in memory.

    Raises:
        ValueError: in csv, tsv or parquet, a column that the first row lacks; parquet without a file, or with values of
            several types in a column.
        FileExistsError: the file exists and no command wrote it.

    Example:
        >>> write_rows([{"text": "where is it", "found": ["order"]}], None, "csv")
        text,found
        where is it,"[""order""]"
        >>> write_rows([{"text": "where is it", "nr": 7}, {"text": "it is here"}], None, "jsonl")
        {"text": "where is it", "nr": 7}
        {"text": "it is here"}
    """
    if kind == "parquet":
        if out is None:
            raise ValueError("parquet is for a file: name it with --out FILE")
        import pyarrow as pa
        from pyarrow import parquet

        with replaceable(out), replacing(out) as temporary:
            try:
                table = pa.Table.from_pylist([*_alike(rows, kind)])
            except pa.ArrowException as error:
                raise ValueError(
                    f"a parquet column needs values of one type: {error}: write jsonl"
                ) from error
            parquet.write_table(table, temporary)
        return
    with writing(out) as file:
        if kind == "jsonl":
            file.writelines(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)
            return
        table = csv_writer(file, "\t" if kind == "tsv" else ",")
        for number, row in enumerate(_alike(rows, kind)):
            if number == 0:
                table.writerow(row)
            table.writerow(_cell(value, separator) for value in row.values())


def _alike(rows: Iterable[Mapping[str, object]], kind: str) -> Iterator[dict[str, object]]:
    """Yields the rows with the columns of the first one, in its order."""
    columns: list[str] | None = None
    for row in rows:
        columns = columns or [*row]
        if unknown := next((name for name in row if name not in columns), None):
            problem = f"a row has a column {unknown!r} that the first row lacks: {kind} has only its columns"
            raise ValueError(f"{problem}: write jsonl, which keeps all columns")
        yield {name: row.get(name) for name in columns}


def csv_writer(file: TextIO, delimiter: str = ",") -> Any:
    """Returns a writer of lines that end in a line feed; by the ends of the library it quotes a carriage return too."""
    return csv.writer(SimpleNamespace(write=lambda line: file.write(f"{line[:-2]}\n")), delimiter=delimiter)


def _cell(value: object, separator: str | None) -> object:
    """Returns a value for csv: several labels joined by the separator, or JSON."""
    if isinstance(value, list) and separator and all(isinstance(one, str) for one in value):
        return separator.join(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
