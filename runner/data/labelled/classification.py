"""Classification data: texts or pairs of texts with one label, several labels, or a number."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iolaus.runner.data.labelled.examples import (
    ExampleReader,
    TaskSequences,
    column,
    example_id,
    first_names,
    text_of,
    tokenized,
)
from iolaus.runner.data.labelled.labels import REGRESSION, SINGLE, Labels, LocatedLabel, majority_accuracy
from iolaus.runner.data.micro_batch import TaskArguments
from iolaus.runner.data.read.rows import Rows


class Labelled(NamedTuple):
    """A text, or a pair, with its label."""

    id: str
    text: str
    pair: str | None
    label: LocatedLabel

    @property
    def where(self) -> str:
        """The place of the row."""
        return self.label.where


class LabelledSequences(TaskSequences):
    """One sample per example; `labels` is int64 [D], float64 [D] for numbers, or float32 [D, C] for several labels."""

    labels: NDArray[Any]
    names: list[str]
    problem_type: str

    def extras(self, indices: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Also `example_labels`, the rows of `labels`, numbers as float32."""
        return {**super().extras(indices), "example_labels": _targets(self.labels[indices])}

    def arrays(self) -> list[NDArray[Any]]:
        """Tokens and labels."""
        return [*super().arrays(), _targets(self.labels)]


def _targets(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels to train on; figures are computed from the numbers as they were read."""
    return labels.astype(np.float32) if labels.dtype.kind == "f" else labels


class ClassificationReader(ExampleReader):
    """Columns of classification data; the kind of problem follows from the labels: see `Labels`."""

    def __init__(
        self,
        text_column: str,
        pair_column: str | None,
        label_column: str,
        id_column: str | None,
        labels: Sequence[Any] | None,
        problem_type: str,
        label_separator: str | None,
    ) -> None:
        self.text_column, self.pair_column = text_column, pair_column
        self.label_column, self.id_column = label_column, id_column
        self.labels = Labels(labels, problem_type, label_separator)

    def examples(self, rows: Rows, labelled: bool) -> list[Labelled]:
        """One example per row; without `labelled`, labels may be missing."""
        found = []
        for number, row in enumerate(rows.rows):
            text = text_of(row, self.text_column, "data.text_column")
            pair = text_of(row, self.pair_column, "data.pair_column") if self.pair_column else None
            if labelled:
                column(row, self.label_column, "data.label_column")
            label = self.labels.as_read(row.values.get(self.label_column))
            if labelled and label is None:
                raise ValueError(f"{row.where}: there is no label in column {self.label_column!r}")
            name = example_id(row, self.id_column, number)
            found.append(Labelled(name, text, pair, LocatedLabel(label, row.where)))
        return found

    def learn(self, examples: list[Labelled], rows: Rows) -> None:
        """Takes the kind of problem, and the names of its labels."""
        self.labels.learn([e.label for e in examples], rows.textual, rows.class_names.get(self.label_column))

    def tokenize(
        self, examples: list[Labelled], tokenizer: Any, max_length: int, training: bool
    ) -> LabelledSequences:
        """One sample per example, cut off at `max_length` tokens."""
        texts, pairs = [e.text for e in examples], [e.pair for e in examples]
        columns = (texts, pairs) if self.pair_column else (texts,)
        with_types = self.pair_column is not None and "token_type_ids" in tokenizer.model_input_names
        ids, types = [], []
        for _, encoding in tokenized(tokenizer, *columns, truncation=True, max_length=max_length):
            ids.append(encoding.ids)
            types.append(encoding.type_ids if with_types else [])
        sequences = LabelledSequences(examples, ids, types if with_types else None)
        sequences.names, sequences.problem_type = self.labels.names, self.labels.problem_type
        kind = {SINGLE: np.int64, REGRESSION: np.float64}.get(sequences.problem_type, np.float32)
        sequences.labels = np.array([self.labels.target(e.label) for e in examples], dtype=kind)
        return sequences

    def texts(self, examples: list[Labelled]) -> Iterator[str]:
        """Text, or text and pair."""
        return (e.text if e.pair is None else f"{e.text}\n{e.pair}" for e in examples)

    def strata(self, examples: list[Labelled]) -> list[str]:
        """The name of the label, those of several, or nothing for numbers."""
        if self.labels.problem_type == REGRESSION:
            return super().strata(examples)
        targets = (self.labels.target(e.label) for e in examples)
        chosen = ([t] if self.labels.problem_type == SINGLE else np.flatnonzero(t) for t in targets)
        return ["\0".join(self.labels.names[number] for number in numbers) for numbers in chosen]

    def collator_arguments(self) -> TaskArguments:
        """Names of the labels, and the kind of problem."""
        return {"labels": self.labels.names, "problem_type": self.labels.problem_type}

    def state_dict(self) -> dict[str, Any]:
        """Names of the labels, the kind of problem, and whether labels are class numbers."""
        return {**self.collator_arguments(), "numbered": self.labels.numbered}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restores labels and kind of problem."""
        numbered = state.get("numbered")  # missing in older runs and in models trained elsewhere
        self.labels.restore(state["labels"], state["problem_type"], numbered)

    def baselines(self, sequences: TaskSequences) -> dict[str, float]:
        """The accuracy of always predicting the most frequent label."""
        assert isinstance(sequences, LabelledSequences)
        return majority_accuracy(sequences.labels) if sequences.problem_type == SINGLE else {}

    def describe(self) -> dict[str, str]:
        """The labels, or that a number is predicted."""
        is_number = self.labels.problem_type == REGRESSION
        return {"labels": "a number" if is_number else first_names(self.labels.names)}
