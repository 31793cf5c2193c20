"""Rows with their columns, in memory, for labelled tasks, images and predictions; each knows where it stood.

Tables keep their own columns. CoNLL and CoNLL-U give `id`, `words` and `labels`; SQuAD gives `id`, `question`,
`context` and `answers` (`text` and `answer_start`, as in the hub's data sets).
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from iolaus.runner.data.read.files import locate
from iolaus.runner.data.read.formats import FORMATS, ROWS, arrow_batches, file_format
from iolaus.runner.data.read.hub import class_names, load_hub
from iolaus.runner.data.read.opened import AS_FOUND, File, Reading


class Row(NamedTuple):
    """One labelled example, and where it stands: `train.csv, line 7`."""

    where: str
    values: Mapping[str, Any]


class Rows(NamedTuple):
    """All rows of a source; in a `textual` one numbers are text; `class_names` names integers, by column.

    Example:
        >>> read_rows([{"text": "seven herons", "label": 1}]).rows[0].values["label"]
        1
    """

    rows: list[Row]
    description: str
    textual: bool = False
    class_names: Mapping[str, list[str]] = {}


def read_rows(source: Any, reading: Reading = AS_FOUND, split: str = "train", setting: str = "") -> Rows:
    """Everything in `source`: files or a data set of the hub (see `locate`), a list of them, or rows made in code.

    Rows made in code are mappings in any iterable, a `datasets.Dataset`, or an object with `rows()`. `split` is taken of
    data sets with several where the name says none; `setting` is what a source without rows is called.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: no rows, a format that is not known, or a line that is not of its format (file and line are named).
    """
    if isinstance(source, str | Path):
        found = _read_path(str(source), reading, split)
    elif isinstance(source, list | tuple) and source and all(isinstance(s, str | Path) for s in source):
        found = _joined([_read_path(str(s), reading, split) for s in source], ", ".join(map(str, source)))
    elif hasattr(source, "rows"):
        rows = [Row(f"{source.describe()}, row {i}", row) for i, row in enumerate(source.rows())]
        found = Rows(rows, source.describe())
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
        rows = _rows_in_code(load_hub(found.hub, found.config, found.split))
        return rows._replace(description=path)
    formats = [file_format(file, reading.format, ROWS) for file in found.files]
    files = zip(found.files, formats, strict=True)
    return _joined([_read_file(File(*file, reading, lone_object=True)) for file in files], path)


def _read_file(file: File) -> Rows:
    rows = []
    for place, values in FORMATS[file.format](file):
        if not isinstance(values, Mapping):
            raise ValueError(
                f"{file.path}, {place}: expected a json object with named columns, found a {type(values).__name__}"
            )
        rows.append(Row(f"{file.path}, {place}", values))
    names: Mapping[str, list[str]] = {}
    if (
        file.format == "arrow"
    ):  # written by `datasets`; the labels of a parquet file stay the integers that they are
        from datasets import Features

        names = class_names(Features.from_arrow_schema(next(arrow_batches(file)).schema))
    return Rows(rows, str(file.path), file.format in ("csv", "tsv", "conll", "conllu"), names)


def _joined(parts: list[Rows], description: str) -> Rows:
    rows = [row for part in parts for row in part.rows]
    names = {column: given for part in parts for column, given in part.class_names.items()}
    return Rows(rows, description, any(part.textual for part in parts), names)
