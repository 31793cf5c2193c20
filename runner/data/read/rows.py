"""Rows in memory with their columns and places, for labelled tasks, images and predictions.

Tables keep their columns. CoNLL and CoNLL-U give `id`, `words` and `labels`; SQuAD gives `id`, `question`, `context` and
`answers` (`text` and `answer_start`, as in the hub's data sets).
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from iolaus.runner.data.read.files import locate
from iolaus.runner.data.read.formats import FORMATS, ROWS, arrow_batches, files_of
from iolaus.runner.data.read.hub import class_names, load_hub
from iolaus.runner.data.read.opened import AS_FOUND, File, Reading


class Row(NamedTuple):
    """One example and its place, such as `train.csv, line 7`."""

    where: str
    values: Mapping[str, Any]


class Rows(NamedTuple):
    """All rows of a source; if `textual`, numbers are text; `class_names` are the names of a column's integers.

    Example:
        >>> read_rows([{"text": "seven herons", "label": 1}]).rows[0].values["label"]
        1
    """

    rows: list[Row]
    description: str
    textual: bool = False
    class_names: Mapping[str, list[str]] = {}


def read_rows(source: Any, reading: Reading = AS_FOUND, split: str = "train", setting: str = "") -> Rows:
    """The rows of files or a data set of the hub (see `locate`), of a list of them, or of rows made in code.

    Rows made in code are mappings in any iterable, a `datasets.Dataset`, or an object with `rows()`. `split` is for data
    sets with several whose name gives none; messages name the `setting`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: no rows, an unknown format, or a line that is not of its format (file and line are named).
    """
    if isinstance(source, str | Path):
        found = _read_path(str(source), reading, split)
    elif isinstance(source, list | tuple) and source and all(isinstance(s, str | Path) for s in source):
        found = _joined([_read_path(str(s), reading, split) for s in source], ", ".join(map(str, source)))
    elif hasattr(source, "rows"):
        name = source.describe()
        found = Rows([Row(f"{name}, row {i}", row) for i, row in enumerate(source.rows())], name)
    else:
        found = _rows_in_code(source)
    if not found.rows:
        raise ValueError(f"{setting}{': ' if setting else ''}{found.description} holds no examples")
    return found


def _rows_in_code(source: Iterable[Mapping[str, Any]]) -> Rows:
    rows = []
    for i, values in enumerate(source):
        if not isinstance(values, Mapping):
            raise ValueError(f"row {i} is a {type(values).__name__}; expected a mapping of columns to values")
        rows.append(Row(f"row {i}", values))
    return Rows(rows, f"{len(rows):,} rows", False, class_names(getattr(source, "features", None)))


def _read_path(path: str, reading: Reading, split: str) -> Rows:
    found = locate(path, split, ROWS, any_format=reading.format != "auto")
    if found.hub:
        return _rows_in_code(load_hub(found.hub, found.config, found.split))._replace(description=path)
    files = files_of(found.files, reading, ROWS, lone_object=True)
    return _joined([_read_file(file) for file in files], path)


def _read_file(file: File) -> Rows:
    rows = []
    for place, values in FORMATS[file.format](file):
        if not isinstance(values, Mapping):
            found = type(values).__name__
            raise ValueError(
                f"{file.path}, {place}: expected a json object with named columns, found a {found}"
            )
        rows.append(Row(f"{file.path}, {place}", values))
    features = None
    if file.format == "arrow":  # written by `datasets`; integers of a parquet file have no names
        from datasets import Features

        features = Features.from_arrow_schema(next(arrow_batches(file)).schema)
    textual = file.format in ("csv", "tsv", "conll", "conllu")
    return Rows(rows, str(file.path), textual, class_names(features))


def _joined(parts: list[Rows], description: str) -> Rows:
    rows = [row for part in parts for row in part.rows]
    names = {column: given for part in parts for column, given in part.class_names.items()}
    return Rows(rows, description, any(part.textual for part in parts), names)
