"""Guesses from the content which columns the user meant if columns are missing; finds hidden labels and similar ones."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from unicodedata import normalize

from tiryns.runner import log
from tiryns.runner.data.labelled import spelling
from tiryns.runner.data.read.bad_rows import AdvisedError, MissingColumn, first_of
from tiryns.runner.data.read.delimited import share_repeated
from tiryns.runner.data.read.rows import Rows
from tiryns.runner.run.command.words import quote_name, typed_setting

_ROWS = 1000
"""The number of first rows whose content is examined."""


PAIRS = (
    *(("sentence1", "sentence2"), ("premise", "hypothesis"), ("question1", "question2"), ("text1", "text2")),
    *(("sentence_A", "sentence_B"), ("text_a", "text_b"), ("s1", "s2"), ("question", "sentence")),
    *(("query", "passage"), ("question", "passage"), ("query", "document")),
)
"""Names of the two text columns in data sets of the hub."""

_PASSAGES = (("anchor", "positive"), ("query", "positive"), ("query", "answer"), ("question", "answer"))
"""More names of the columns of a query and of its passage."""

_NEGATIVE = re.compile(r"(hard_)?neg(ative)?s?(_?\d+)?")
_SCORE = re.compile(r"score|label|simil|relat|duplicate|paraphrase|gold|judg", re.IGNORECASE)

_BEIR = "BEIR has queries, passages and their pairs in three files: write both texts of a pair into one row"

_FORMS = (
    ("texts", {"data", "annotations"}, "Export JSON-MIN or CSV from Label Studio, in which each is a column"),
    ("pairs", {"query-id", "corpus-id"}, _BEIR),
    ("pairs", {"_id", "text"}, _BEIR),
)
"""Formats that no setting can read: for each, the reader's `rows_hold`, the columns that show it, and advice."""


def meant_error(
    error: MissingColumn,
    rows: Rows,
    text_column: str,
    label_column: str,
    labels: Collection[str] | None = None,
    reader: Any = None,
) -> ValueError:
    """Returns the error for a missing column. It names the settings that were probably meant, if the content shows them.

    With the `labels` of a trained model, a label column is optional, and it may hold only these labels. The `reader` of
    the task decides which columns are searched, such as words with labels, or answers in a context.
    """
    columns = _columns(rows)
    problem = re.split("[.] (?:Set|Expected) ", str(error))[0]
    kind = reader.rows_hold if reader else "texts"
    if advice := next((say for of, names, say in _FORMS if of == kind and names <= columns.keys()), None):
        return ValueError(f"{problem}. {advice}")
    if kind == "words":
        meant = _meant_words(columns, text_column, label_column, labels)
    elif kind == "answers":
        meant = _meant_answers(columns, text_column, reader.context_column, label_column)
    elif kind in ("pairs", "lists"):
        meant = _meant_pairs(columns, text_column)
        if kind == "lists" and "label_column" in meant:  # a query with a graded candidate
            text_and_grade = {name: meant[name] for name in ("text_column", "label_column") if name in meant}
            meant = text_and_grade | {"choices_column": meant["pair_column"]}
    else:
        meant = meant_columns(rows, text_column, label_column, labels)
    if not meant:
        return error
    cure = {n: tuple(values) if len(values) > 1 else values[0] for n, values in meant.items() if "." not in n}
    several = {n: " or ".join(map(quote_name, values)) for n, values in meant.items() if len(values) > 1}
    phrases = [
        f"data.{name} to {several[name]}" if name in several else typed_setting(name, values[0])
        for name, values in meant.items()
    ]
    settings = (" and " if several else " ").join(phrases)
    return AdvisedError(f"{problem}. By what they hold, set {settings}", **cure)


def warn_of_unread(rows: Rows, reader: Any) -> None:
    """Logs columns that matter but are not read, with the settings that read them."""
    columns, read = _columns(rows), {*reader.columns(), *reader.label_names()}
    hints: dict[str, str] = {}
    if reader.rows_hold == "texts":
        names = [b for a, b in PAIRS if a in read and b in columns]
        hints = {name: f"data.pair_column={quote_name(name)} reads it" for name in names}
    elif reader.rows_hold == "pairs":
        hints = {name: "data.negative_columns reads it" for name in columns if _NEGATIVE.fullmatch(name)}
        if reader.label_column is None:
            alike = "objective.loss=cosent reads it; without it the texts of every row belong together"
            hints |= {name: f"data.label_column={quote_name(name)} {alike}" for name in _scores(columns)}
    for name in hints.keys() - read:
        log.warning("%s: the column %r is not read: %s", rows.description, name, hints[name])


def warn_of_alike(names: Sequence[str]) -> None:
    """Logs the labels that differ only in case, in white space, or in how Unicode composes their characters."""
    groups: dict[str, list[str]] = {}
    for name in names:
        literal = repr(name) if name == normalize("NFC", name) else ascii(name)
        groups.setdefault(" ".join(normalize("NFC", name).casefold().split()), []).append(literal)
    if alike := [" and ".join(group) for group in groups.values() if len(group) > 1]:
        advice = "are different labels; give labels that mean the same one spelling"
        differ = "labels that differ in case, white space or composed characters alone"
        log.warning("%s %s: %s", differ, advice, first_of(alike))


Columns = Mapping[str, Sequence[Any]]
"""The values of the first rows by column."""

Meant = dict[str, list[Any]]
"""For each setting, the values that may be meant, the likeliest first. Names without a dot are settings of `data`."""


def meant_columns(
    rows: Rows, text_column: str, label_column: str, labels: Collection[str] | None = None
) -> Meant:
    """Returns the settings for the text and label columns, guessed from their content; empty if no column stands out.

    Example:
        >>> from tiryns.runner.data.read.rows import read_rows
        >>> rows = [{"Question": f"where is order {i}", "Intent": "order" if i % 2 else "refund"} for i in range(9)]
        >>> meant_columns(read_rows(rows), "text", "label")
        {'text_column': ['Question'], 'label_column': ['Intent']}
    """
    columns = _columns(rows)
    flags = [name for name, values in columns.items() if None not in map(spelling.truth_of, values)]
    texts = [name for name in _all_of(columns, str) if name != label_column]
    longest = _longest(columns, texts)
    pair: Sequence[str] = next((both for both in PAIRS if {*both} <= {*texts}), ())
    text = text_column if text_column in columns else pair[0] if pair else longest
    if not text:
        return {}
    others = [name for name in columns if name not in (text, *pair)]
    # most values of it occur several times
    categorical = [name for name in others if share_repeated([*map(spelling.spell, columns[name])]) > 0.5]
    classes = [name for name in categorical if name not in flags and len({*map(str, columns[name])}) > 1]
    classes = [name for name in classes if not any(isinstance(value, Mapping) for value in columns[name])]
    meant: Meant = {"text_column": [text]} if text != text_column else {}
    if meant and pair:
        meant["pair_column"] = [pair[1]]
    if labels is not None:
        spellings = {*map(spelling.spell, labels)}
        flags = []
        classes = [n for n in categorical if all(spelling.name_among(one, spellings) for one in columns[n])]
    if label_column not in columns and (labels is None or classes):
        if classes:
            meant["label_column"] = sorted(classes, key=lambda name: len({*map(str, columns[name])}))
        elif len(flags) > 1:
            meant["label_columns"] = [flags]
        elif flags:
            meant["label_column"] = flags
        else:
            return {}
    return meant


def _meant_words(
    columns: Columns, text_column: str, label_column: str, labels: Collection[str] | None
) -> Meant:
    """Returns the settings for the lists of words and of labels; the column with most distinct texts has the words."""
    lists = {name: columns[name] for name in _all_of(columns, list)}
    items = {n: [one for v in values for one in v] for n, values in lists.items()}
    texts = {n: {*flat} for n, flat in items.items() if flat and all(isinstance(one, str) for one in flat)}
    words = text_column if text_column in columns else max(texts, key=lambda n: len(texts[n]), default="")
    if words not in lists:
        return {}
    lengths = [len(one) for one in lists[words]]
    tags = [n for n in lists if n != words and [len(one) for one in lists[n]] == lengths]
    tags = [n for n in tags if all(isinstance(one, str | int) for one in items[n])]
    meant: Meant = {} if words == text_column else {"text_column": [words]}
    if label_column in columns or (labels is not None and meant):
        return meant
    return meant | {"label_column": tags} if tags else {}


def _meant_pairs(columns: Columns, text_column: str) -> Meant:
    """Returns the settings for two texts, negatives and a score; empty if no pair of `PAIRS` or `_PASSAGES` occurs."""
    texts = _all_of(columns, str)
    if (pair := next((both for both in PAIRS + _PASSAGES if {*both} <= {*texts}), None)) is None:
        return {}
    meant: Meant = {} if pair[0] == text_column else {"text_column": [pair[0]]}
    meant["pair_column"] = [pair[1]]
    if negatives := [name for name in columns if _NEGATIVE.fullmatch(name)]:
        meant["negative_columns"] = [negatives[0] if len(negatives) == 1 else negatives]
    for name in _scores(columns)[:1]:
        meant |= {"label_column": [name], "objective.loss": ["cosent"]}
    return meant


def _scores(columns: Columns) -> list[str]:
    """Returns the columns that may say how similar two texts are: first by name, then columns of only 0 and 1."""
    plain = [n for n, values in columns.items() if not any(isinstance(v, list | Mapping) for v in values)]
    several = [n for n in plain if len({*columns[n]}) > 1]
    names = [n for n in several if _SCORE.search(n) or None not in map(spelling.truth_of, columns[n])]
    return sorted(names, key=lambda name: not _SCORE.search(name))


def _meant_answers(columns: Columns, text_column: str, context_column: str, label_column: str) -> Meant:
    """Returns the settings for answers (with `answer_start`), questions and contexts. Contexts are the longest texts."""
    first = {n: [v[0] if isinstance(v, list) and v else v for v in values] for n, values in columns.items()}
    fields = {"text", "answer_start"}
    answers = [n for n in _all_of(first, Mapping) if all(fields <= value.keys() for value in first[n])]
    texts = [name for name in _all_of(columns, str) if name != "id"]
    context = context_column if context_column in columns else _longest(columns, texts)
    others = [name for name in texts if name != context]
    asking = [name for name in others if re.search("quest|query", name.lower())]
    asking = asking or (others if len(others) == 1 else [])
    text = text_column if text_column in columns else next(iter(asking), "")
    label = label_column if label_column in columns else answers[0] if len(answers) == 1 else ""
    changes = {"text": (text_column, text), "context": (context_column, context)}
    changes["label"] = (label_column, label)
    if not all(meant for _, meant in changes.values()):
        return {}
    return {f"{name}_column": [new] for name, (old, new) in changes.items() if old != new}


def _all_of(columns: Columns, kind: type) -> list[str]:
    """Returns the columns in which every value has the type `kind`."""
    return [name for name, values in columns.items() if all(isinstance(one, kind) for one in values)]


def _longest(columns: Columns, names: Iterable[str]) -> str:
    """Returns the column with the longest texts; empty without columns."""
    return max(names, key=lambda name: sum(map(len, columns[name])), default="")


def _columns(rows: Rows) -> Columns:
    """Returns the values of the first rows by column."""
    names = [name for name in rows.rows[0].values if isinstance(name, str)]
    return {name: [row.values.get(name) for row in rows.rows[:_ROWS]] for name in names}


def without_hidden(rows: Rows, columns: Sequence[str], learnt: Rows | Iterable[object] | None) -> Rows:
    """Returns the rows with hidden labels removed, and logs their number: these rows are predicted and not measured.

    The labels of a row are hidden if all its labels in `columns`, apart from empty ones, are -1. They are kept if -1 can
    be a real label: if a training label is negative, or if `learnt` is None and another row has no hidden labels.
    `learnt` are the training labels, or the training rows, whose columns with class names are ignored; None if unknown.
    """
    if isinstance(learnt, Rows):
        label_columns = [name for name in columns if name not in learnt.class_names]
        learnt = (row.values.get(name) for row in learnt.rows for name in label_columns)
    labels = ([spelling.to_python(row.values.get(name)) for name in columns] for row in rows.rows)
    hidden = [spelling.is_hidden([one for one in cells if not spelling.is_missing(one)]) for cells in labels]
    if not any(hidden) or (not all(hidden) if learnt is None else any(map(spelling.is_negative, learnt))):
        return rows
    counts = f"{sum(hidden):,} of {len(hidden):,} labels are hidden (-1)"
    log.info("%s: %s, so these rows are predicted and not measured", rows.description, counts)
    cleared_rows = [
        row._replace(values={**row.values, **dict.fromkeys({*columns} & {*row.values})}) if out else row
        for row, out in zip(rows.rows, hidden, strict=True)
    ]
    return rows._replace(rows=cleared_rows)
