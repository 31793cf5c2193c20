"""Rows in memory with their columns and places, for labelled tasks, images and predictions.

Tables keep their columns. CoNLL and CoNLL-U give `id`, `words` and `labels`; SQuAD gives `id`, `question`, `context` and
`answers` (`text` and `answer_start`, as in the hub's data sets).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from tiryns.runner.data.read.arrow_files import arrow_batches
from tiryns.runner.data.read.bad_rows import RAISED, BadRow, BadRows
from tiryns.runner.data.read.cards import card_class_names, class_names, schema_class_names
from tiryns.runner.data.read.delimited import dialect_of
from tiryns.runner.data.read.files import load_hub, locate
from tiryns.runner.data.read.formats import ARROW, FORMATS, ROWS, files_of, is_pair, no_column
from tiryns.runner.data.read.opened import AS_FOUND, Dialect, File, Reading

Values = Mapping[str, Any]
"""The columns of a row."""


class Row(NamedTuple):
    """One example and its place, such as `train.csv, line 7`."""

    where: str
    values: Values

    def column(self, name: str, setting: str) -> Any:
        """Returns the value of a column. Raises ValueError with the names of all columns if the row lacks this one."""
        if name not in self.values:
            raise no_column(self.where, name, self.values, setting)
        return self.values[name]

    def text(self, name: str, setting: str) -> str:
        """Returns the text of a column. Raises ValueError if it is no text, or empty."""
        value = self.column(name, setting)
        if value is None or value != value:  # pandas writes what is missing as NaN
            value = ""
        if not isinstance(value, str):
            problem = f"column {name!r} holds a {type(value).__name__}, expected text: {value!r:.80}"
            raise BadRow(self.where, problem, "no text")
        if not value.strip():
            problem = f"the text in column {name!r} is empty; remove the row or fill it in"
            raise BadRow(self.where, problem, "empty text")
        return value

    def id(self, id_column: str | None, number: int) -> str:
        """Returns the id of an example in the predictions: its id column, else the column `id`, else its number."""
        if id_column is not None:
            return str(self.column(id_column, "data.id_column"))
        value = self.values.get("id")
        return str(number if value in (None, "") else value)


class Rows(NamedTuple):
    """All rows of a source. `textual`: numbers came as text. `class_names`: the names of integers, by column.

    Example:
        >>> read_rows([{"text": "seven herons", "label": 1}]).rows[0].values["label"]
        1
    """

    rows: list[Row]
    description: str
    textual: bool = False
    class_names: Mapping[str, list[str]] = {}
    bad: BadRows = RAISED
    """What becomes of rows that cannot be used."""
    tables: Mapping[str, Dialect] = {}
    """The dialects of the csv and tsv files, by path."""
    first: int = 0
    """The number of the first row, if these are a batch of the rows."""


@runtime_checkable
class RowsInCode(Protocol):
    """An object that makes rows."""

    def rows(self) -> Iterable[Values]:
        """Returns all rows."""

    def describe(self) -> str:
        """One line for the summary of a run."""


RowSource = str | Path | RowsInCode | Iterable[str | Path | Values]
"""A source of rows; see `read_rows`."""

RowSources = RowSource | Mapping[str, RowSource] | None
"""A source, or several by name."""


class LabelRule(IntEnum):
    """The rules by which versions read labels. A resumed run keeps its rule, and a model keeps the rule of its run.

    Example:
        >>> LabelRule.of({"labels": "as written"}), LabelRule.of({}), LabelRule.AS_NAMED.record["labels"]
        (<LabelRule.AS_WRITTEN: 1>, <LabelRule.FROM_ZERO: 0>, 'as named')
    """

    FROM_ZERO = 0
    """Until 0.2: integers are classes from 0 to the highest one, and parquet files have no class names."""
    AS_WRITTEN = 1
    """In 0.3: classes are the labels that occur."""
    AS_NAMED = 2
    """Cards name classes too, and labels that look like several are refused."""

    @property
    def record(self) -> dict[str, str]:
        """Returns the entry that runs and exported models record."""
        return {"labels": self.name.lower().replace("_", " ")}

    @classmethod
    def of(cls, record: Mapping[str, object]) -> "LabelRule":
        """Returns the rule of a record; 0.2 recorded none."""
        return next((rule for rule in cls if rule.record.items() <= record.items()), cls.FROM_ZERO)


class HowRead(NamedTuple):
    """What a reader of rows may know of a source besides the settings.

    Example:
        >>> HowRead(bad=BadRows(skip=True)).bad.skip
        True
    """

    bad: BadRows = RAISED
    """What becomes of rows that cannot be used."""
    columns: Sequence[str] = ()
    """The columns that the task reads. If a csv file has none of them, its first line may be data, not a header."""
    dialects: Mapping[str, Dialect] = {}
    """The dialects of csv and tsv files that were detected earlier, by path."""
    lone_text: str | None = None
    """The column for plain texts in a json list; if None, plain texts are an error."""
    rule: LabelRule = LabelRule.AS_NAMED
    """The rule of labels, which decides whether class names of parquet files and of cards are used."""


PLAINLY = HowRead()
"""Nothing is known, and a row that cannot be used is an error."""


def read_rows(
    source: RowSource,
    reading: Reading = AS_FOUND,
    split: str = "train",
    setting: str = "",
    how: HowRead = PLAINLY,
) -> Rows:
    """Returns the rows of files or a data set of the hub (see `locate`), of a list of them, or of rows made in code.

    Rows made in code are mappings in any iterable, a `datasets.Dataset`, or an object with `rows()`. `split` applies to
    data sets with several splits if the name gives no split; messages name the `setting`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: no rows, an unknown format, or a line that is not of its format (file and line are named).
    """
    items: RowsInCode | Iterable[object] = [source] if isinstance(source, str | Path) else source
    if isinstance(items, list | tuple) and items and all(isinstance(path, str | Path) for path in items):
        streams = (stream_rows(str(path), reading, split, how) for path in items)
        parts = [part._replace(rows=list(part.rows)) for part in streams]
        rows = Rows(
            [row for part in parts for row in part.rows],
            ", ".join(map(str, items)),
            any(part.textual for part in parts),
            _joined_names([(part.description, part.class_names) for part in parts]),
            tables={path: dialect for part in parts for path, dialect in part.tables.items()},
        )
    elif isinstance(items, RowsInCode):
        name = items.describe()
        rows = Rows([Row(f"{name}, row {i}", row) for i, row in enumerate(items.rows())], name)
    else:
        rows = _rows_in_code(items)
    if not rows.rows:
        first = f" that can be used: {how.bad.first}" if how.bad.first else ""
        raise ValueError(f"{setting}{': ' if setting else ''}{rows.description} holds no examples{first}")
    return rows._replace(bad=how.bad)


def _rows_in_code(source: Iterable[object]) -> Rows:
    rows = []
    for i, values in enumerate(source):
        if not isinstance(values, Mapping):
            raise ValueError(f"row {i} is a {type(values).__name__}; expected a mapping of columns to values")
        rows.append(Row(f"row {i}", values))
    features: Any = getattr(getattr(source, "features", None), "to_dict", dict)()
    return Rows(rows, f"{len(rows):,} rows", False, class_names(features))


def stream_rows(path: str, reading: Reading, split: str, how: HowRead = PLAINLY) -> Rows:
    """Returns the rows of a path (see `locate`); `rows` is an iterator. Only json files are held in memory whole."""
    source = locate(path, split, ROWS, any_format=reading.format != "auto")
    if source.hub:
        return _rows_in_code(load_hub(source.hub, source.config, source.split))._replace(description=path)
    files = [with_dialect(file, how) for file in files_of(source.files, reading, ROWS, lone_object=True)]
    rows: Any = (row for file in files for row in rows_of(file, how.lone_text))
    return Rows(
        rows, path, any(file.format in ("csv", "tsv", "conll", "conllu") for file in files),
        _joined_names([(str(file.path), _class_names(file, how)) for file in files]), how.bad,
        {str(file.path): file.dialect for file in files if file.dialect},
    )  # fmt: skip


def with_dialect(file: File, how: HowRead) -> File:
    """Returns the file with its handling of bad rows, and its dialect if it is a csv or tsv file."""
    file = file._replace(bad=how.bad, reading=file.reading._replace(encoding=file.given_encoding))
    if file.format in ("csv", "tsv"):
        dialect = how.dialects.get(str(file.path)) or dialect_of(file, how.columns)
        settings = {name: getattr(file.reading, name) for name in ("delimiter", "encoding", "quoting")}
        settings["names"] = list(map(str, file.reading.header)) if file.reading.header else None
        overrides = {name: value for name, value in settings.items() if value is not None}
        file = file._replace(dialect=dialect._replace(**overrides))
    return file


def rows_of(file: File, lone_text: str | None) -> Iterator[Row]:
    """Yields the rows of a file. A spaCy pair becomes `text` and its mapping; plain text is in `lone_text`."""
    for place, values in FORMATS[file.format](file):
        where = f"{file.path}, {place}"
        with file.bad.row():
            if is_pair(values):
                values = {"text": values[0], **values[1]}
            elif isinstance(values, str) and lone_text:
                values = {lone_text: values}
            if not isinstance(values, Mapping):
                problem = f"expected a json object with named columns, found a {type(values).__name__}"
                raise BadRow(where, problem, "no json object")
            if is_rejected(values):
                file.bad.pass_over(where, "rejected or skipped by the annotator")
            else:
                yield Row(where, values)


def is_rejected(values: Mapping[str, object]) -> bool:
    """Whether the annotator rejected or skipped a row, by Prodigy's `answer` or Label Studio's annotations.

    Example:
        >>> is_rejected({"text": "rain", "_task_hash": 7, "answer": "ignore"})
        True
    """
    annotations = values.get("annotations", values.get("completions"))
    if isinstance(annotations, list) and annotations:
        return all(isinstance(one, Mapping) and bool(one.get("was_cancelled")) for one in annotations)
    return "_task_hash" in values and values.get("answer") in ("reject", "ignore")


def _class_names(file: File, how: HowRead) -> dict[str, list[str]]:
    """Returns the class names in the schema of an arrow or parquet file, else in the card of the file's data set."""
    names = card_class_names(Path(file.path)) if how.rule is LabelRule.AS_NAMED else {}
    if file.format in ARROW and (how.rule is not LabelRule.FROM_ZERO or file.format != "parquet"):
        names |= schema_class_names(next(arrow_batches(file)).schema)
    return names


def _joined_names(parts: Sequence[tuple[str, Mapping[str, list[str]]]]) -> dict[str, list[str]]:
    """Returns the class names of all parts by column; ValueError where two parts number their classes differently."""
    by_column: dict[str, tuple[str, list[str]]] = {}
    for where, columns in parts:
        for column, names in columns.items():
            first, previous_names = by_column.setdefault(column, (where, names))
            if previous_names != names:
                both = f"{', '.join(previous_names[:5])} in {first}, {', '.join(names[:5])} in {where}"
                raise ValueError(f"the class names of column {column!r} differ: {both}. Read them one by one")
    return {column: names for column, (_, names) in by_column.items()}


def described_tables(tables: Mapping[str, Dialect]) -> str:
    """Returns the dialects of csv and tsv files in words, each different dialect once; empty without files.

    Example:
        >>> described_tables({"a.csv": Dialect(";", "utf-8", True, None)})
        'a.csv: semicolon, utf-8, header'
    """
    alike: dict[str, list[str]] = {}
    for path, dialect in tables.items():
        alike.setdefault(dialect.describe(), []).append(path)
    more = {how: f" and {len(paths) - 1} more" if len(paths) > 1 else "" for how, paths in alike.items()}
    return "; ".join(f"{paths[0]}{more[how]}: {how}" for how, paths in alike.items())
