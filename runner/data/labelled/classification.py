"""Classification data: texts or pairs of texts with one label, several labels, or a number."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from textwrap import shorten
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiryns.runner import log
from tiryns.runner.data.labelled.examples import ExampleReader, Learnt, TaskSequences, encode
from tiryns.runner.data.labelled.labels import (
    MULTI,
    REGRESSION,
    SINGLE,
    LabelCounts,
    Labels,
    known_labels,
    majority_accuracy,
    names_of,
    tally,
)
from tiryns.runner.data.labelled.labels_from_zero import LabelsFromZero
from tiryns.runner.data.labelled.spelling import LocatedLabel, is_missing, spell, truth_of
from tiryns.runner.data.micro_batch import FlatSamples, TaskArguments, Tokenizer
from tiryns.runner.data.read.bad_rows import BadRow, first_names
from tiryns.runner.data.read.rows import LabelRule, Row, Rows

_SEPARATORS = (", ", ";", "|")

_VECTOR = re.compile(r"(?:\[\s*)?(?:[01](?:\.0*)?(?:\s*[,;|]\s*|\s+)){2,}[01](?:\.0*)?(?:\s*\])?")


class Labelled(NamedTuple):
    """A text, or a pair, with its label."""

    id: str
    text: str
    pair: str | None
    label: LocatedLabel

    @property
    def where(self) -> str:
        """The place of the row, such as `train.csv, line 7`."""
        return self.label.where


class LabelledSequences(TaskSequences):
    """One sample per example. `labels`: int64 classes [D], float64 numbers [D], or float32 0 and 1 per class [D, C]."""

    examples: Sequence[Labelled]
    labels: NDArray[np.number]
    names: list[str]
    problem_type: str

    def extras(self, indices: NDArray[np.int64]) -> FlatSamples:
        """Adds `example_labels`, the samples' rows of `labels`, with floats as float32."""
        return {**super().extras(indices), "example_labels": _targets(self.labels[indices])}

    def arrays(self) -> list[NDArray[np.generic]]:
        return [*super().arrays(), _targets(self.labels)]

    def label_counts(self) -> LabelCounts:
        """Returns how many examples have each label, and how many examples are labelled."""
        return tally(self.labels, len(self.names))


def _targets(labels: NDArray[np.number]) -> NDArray[np.number]:
    """Returns the labels to train on. Floats become float32; metrics use the floats as they were read."""
    return labels.astype(np.float32) if labels.dtype.kind == "f" else labels


class ClassificationReader(ExampleReader[Labelled]):
    """Reads the columns of classification data. The labels decide the problem type unless it is set: see `Labels`."""

    def __init__(
        self,
        text_column: str,
        pair_column: str | None,
        label_column: str,
        id_column: str | None,
        labels: Sequence[object] | None,
        problem_type: str,
        label_separator: str | None,
        label_columns: Sequence[str] | None = None,
    ) -> None:
        self.text_column, self.pair_column = text_column, pair_column
        self.label_column, self.id_column = label_column, id_column
        self.label_columns = list(label_columns or ())
        self._preset = (names_of(labels) or self.label_columns, problem_type, label_separator)
        self._label_by(Labels)

    def _label_by(self, rule: type[Labels]) -> None:
        self.labels = rule(*self._preset)
        self.labels.one_hot = bool(self.label_columns)

    def columns(self) -> tuple[str, ...]:
        pair = (self.pair_column,) if self.pair_column else ()
        return (self.text_column, *pair, *(self.label_columns or [self.label_column]))

    def label_names(self) -> tuple[str, ...]:
        return (self.label_column, *self.label_columns)

    def has_label(self, row: Row, column: str) -> bool:
        """Returns whether a row has a label; an empty cell of several labels says that the text has none of them."""
        return super().has_label(row, column) or bool(self.labels.separator and row.values.get(column) == "")

    def arranged(self, rows: Rows) -> Rows:
        """Joins one-hot columns into a list in the label column. A row in which all of them are empty gets no label."""
        if not self.label_columns:
            return rows
        joined_rows = []
        for row in rows.rows:
            with rows.bad.row():
                values = {name: value for name, value in row.values.items() if name != self.label_column}
                if not all(is_missing(row.values.get(name)) for name in self.label_columns):
                    for name in self.label_columns:
                        if truth_of(row.column(name, "data.label_columns")) is None:
                            problem = f"column {name!r} holds {row.values[name]!r:.40}, expected 0 or 1"
                            raise BadRow(row.where, problem, "neither 0 nor 1")
                    values[self.label_column] = [n for n in self.label_columns if truth_of(row.values[n])]
                joined_rows.append(row._replace(values=values))
        return rows._replace(rows=joined_rows)

    def examples(self, rows: Rows, labelled: bool) -> list[Labelled]:
        examples, names = [], self.label_columns or [self.label_column]
        labels = (self.labels.as_read(row.values.get(self.label_column)) for row in rows.rows)
        classes = self.labels.class_names(rows.class_names.get(self.label_column), labels)
        for number, row in enumerate(rows.rows, rows.first):
            with rows.bad.row():
                text = row.text(self.text_column, "data.text_column")
                pair = row.text(self.pair_column, "data.pair_column") if self.pair_column else None
                for one in names if labelled else ():
                    row.column(one, f"data.label_column{'s' if self.label_columns else ''}")
                is_labelled = self.has_label(row, self.label_column)
                label = self.labels.as_read(row.values[self.label_column]) if is_labelled else None
                label = classes.of(row.where, label)
                if labelled and label is None:
                    where = f"column{'s' if self.label_columns else ''} {', '.join(map(repr, names))}"
                    raise BadRow(row.where, f"there is no label in {where}", "no label")
                name = row.id(self.id_column, number)
                examples.append(Labelled(name, text, pair, LocatedLabel(label, row.where)))
        return examples

    def read_by(self, rule: LabelRule) -> None:
        """Sets the rule. By `FROM_ZERO`, integers are classes from 0 up. Only `AS_NAMED` refuses doubtful labels."""
        super().read_by(rule)
        self._label_by(LabelsFromZero if rule is LabelRule.FROM_ZERO else Labels)
        self.labels.checked = rule is LabelRule.AS_NAMED

    def learn(self, examples: list[Labelled], rows: Rows) -> None:
        """Takes the problem type and the names of the labels from the training examples."""
        entries = [e.label for e in examples if e.label.label is not None]
        infers_type = self.labels.checked and not self._preset[0] and self._preset[1] == "auto"
        infers_type = infers_type and self.label_column not in rows.class_names
        if self.labels.checked:
            check_vectors(entries, infers_type)
        self.labels.learn([e.label for e in examples], rows.textual, rows.class_names.get(self.label_column))
        if infers_type and self.labels.problem_type == SINGLE:
            self.labels.decision = self.labels.decision or joined_classes_note(entries)
        if self.labels.decision:
            log.info("labels: %s", self.describe()["labels"])

    def tokenize(
        self, examples: list[Labelled], tokenizer: Tokenizer, max_length: int, training: bool
    ) -> LabelledSequences:
        """Returns one sample per example, cut off at `max_length` tokens."""
        texts, pairs = [e.text for e in examples], [e.pair for e in examples]
        columns = (texts, pairs) if self.pair_column else (texts,)
        with_types = self.pair_column is not None and "token_type_ids" in tokenizer.model_input_names
        ids, types = [], []
        for _, encoding in encode(tokenizer, *columns, truncation=True, max_length=max_length):
            ids.append(encoding.ids)
            types.append(encoding.type_ids if with_types else [])
        sequences = LabelledSequences(examples, ids, types if with_types else None)
        sequences.names, sequences.problem_type = self.labels.names, self.labels.problem_type
        kind = {SINGLE: np.int64, REGRESSION: np.float64}.get(sequences.problem_type, np.float32)
        sequences.labels = np.array(list(map(self.target, examples)), dtype=kind)
        return sequences

    def texts(self, examples: list[Labelled]) -> Iterator[str]:
        return (e.text if e.pair is None else f"{e.text}\n{e.pair}" for e in examples)

    def target(self, example: Labelled) -> Any:
        """Returns a class number, a number to regress, or 0 and 1 per class; raises BadRow for a wrong label."""
        return self.labels.target(example.label)

    def conflicts(self, examples: list[Labelled]) -> list[str]:
        """Returns a line for each text or pair whose rows have different labels; no lines for regression."""
        if self.labels.problem_type == REGRESSION:
            return []
        places: dict[tuple[str, str | None], dict[str, str]] = {}
        for e in examples:
            label = e.label.label
            if label is not None:
                name = ", ".join(map(spell, label)) if isinstance(label, list) else spell(label)
                places.setdefault((e.text, e.pair), {}).setdefault(name, e.where)
        return [
            f"{shorten(text, 60, placeholder='...')!r} is "
            + " and ".join(f"{name or 'none'} ({where})" for name, where in labels.items())
            for (text, _), labels in places.items()
            if len(labels) > 1
        ]

    def strata(self, examples: list[Labelled]) -> list[str]:
        """Returns the label names of each example as one text; an empty text for regression."""
        if self.labels.problem_type == REGRESSION:
            return super().strata(examples)
        targets = map(self.target, examples)
        classes = ([t] if self.labels.problem_type == SINGLE else np.flatnonzero(t) for t in targets)
        return ["\0".join(self.labels.names[number] for number in numbers) for numbers in classes]

    def collator_arguments(self) -> TaskArguments:
        return {"labels": self.labels.names, "problem_type": self.labels.problem_type}

    def state_dict(self) -> Learnt:
        return {**self.collator_arguments(), "numbered": self.labels.numbered}

    def restore(self, state: Learnt) -> None:
        """Restores labels and problem type. Models trained elsewhere have no `numbered`: they use `LabelsFromZero`."""
        if self.rule is LabelRule.FROM_ZERO or "numbered" not in state:
            self._label_by(LabelsFromZero)
        self.labels.restore(state["labels"], state["problem_type"], state.get("numbered"))

    def baselines(self, sequences: TaskSequences) -> dict[str, float]:
        """Returns the accuracy of predicting the most frequent label, or in regression the MSE of predicting the mean."""
        assert isinstance(sequences, LabelledSequences)
        if sequences.problem_type == REGRESSION and len(targets := known_labels(sequences.labels)):
            return {"constant_mse": float(targets.var())}
        return majority_accuracy(sequences.labels) if sequences.problem_type == SINGLE else {}

    def describe(self) -> dict[str, str]:
        is_number = self.labels.problem_type == REGRESSION
        several = "several at once: " if self.labels.problem_type == MULTI else ""
        labels = "a number" if is_number else several + first_names(self.labels.names)
        return {"labels": labels + (f" ({self.labels.decision})" if self.labels.decision else "")}


def check_vectors(entries: Sequence[LocatedLabel], as_text: bool) -> None:
    """Raises ValueError if all labels are vectors of 0 and 1 of the same length, with an entry for each class.

    With `as_text`, text with three or more entries is a vector too.
    """
    lists = [_vector(one.label) if as_text or isinstance(one.label, list) else [] for one in entries]
    length = len(lists[0]) if lists else 0
    if length > 1 and {len(one) for one in lists} == {length}:
        classes = "; if each text is one class, say data.problem_type=single_label"
        classes = "" if isinstance(entries[0].label, list) else classes
        raise ValueError(
            f"{entries[0].where}: the label {entries[0].label!r:.40} reads as {length} labels with a 1 for each class "
            f"that the row has: write a list of them, or a column per class and 'data.label_columns=[a,b,...]'{classes}"
        )


def _vector(label: object) -> list[object]:
    """Returns the entries of a vector of 0 and 1, given as a list or as text; an empty list for any other label."""
    if isinstance(label, str):
        return re.findall(r"([01])(?:\.0*)?", label) if _VECTOR.fullmatch(label.strip()) else []
    items = label if isinstance(label, list) else []
    return items if all(x in ("0", "1") or (isinstance(x, int) and x in (0, 1)) for x in items) else []


def joined_classes_note(entries: Sequence[LocatedLabel]) -> str:
    """Returns a note if most labels look like several labels with a separator; an empty text otherwise."""
    cells = [one.label for one in entries if isinstance(one.label, str)]
    for sign in _SEPARATORS:
        parts = [{part.strip() for part in cell.split(sign)} for cell in cells]
        counts = Counter(part for names in parts for part in names)
        num_joined = sum(len(names) > 1 for names in parts)
        if 2 * num_joined > len(cells) and 2 * sum(count > 1 for count in counts.values()) > len(counts):
            sign = sign.strip()
            several = f"data.label_separator=\"'{sign}'\" makes several labels of each"
            return f"as they are written, though most hold {sign!r}; {several}"
    return ""
