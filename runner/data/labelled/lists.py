"""Lists of candidates in rows, and as tokens. Letters in shapes: E lists, X candidates of all lists."""

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, count, islice, pairwise, product
from string import ascii_uppercase
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.data.labelled.examples import ExampleReader, TaskSequences, concatenate, encode
from tiryns.runner.data.labelled.spelling import is_missing, spell, to_python
from tiryns.runner.data.micro_batch import FlatSamples, Tokenizer
from tiryns.runner.data.read.bad_rows import BadRow
from tiryns.runner.data.read.rows import Row, Rows


class Candidates(NamedTuple):
    """A query with its candidates, or a text with its choices, which may follow a `context`."""

    id: str
    text: str
    context: str | None
    candidates: list[str]
    names: list[str]
    """The names of the candidates: those in the data, else the letters A to Z, AA, AB, ..."""
    label: Any
    """The grade of each candidate, or what identifies the right choice; None if unknown."""
    where: str


class ListSequences(TaskSequences):
    """One sample per list: its candidates one after the other, each after a copy of the query."""

    examples: Sequence[Candidates]
    labels: NDArray[np.number]  # int64 [E], the candidate that is right, or float32 [X], the grade of each
    counts: NDArray[np.int64]  # [E], the candidates of each list
    choice_lengths: NDArray[np.int32]  # [X], tokens of each candidate with its query
    targets = ("choice_lengths", "counts", "labels")

    def extras(self, indices: NDArray[np.int64]) -> FlatSamples:
        """Adds `num_choices` per sample, `choice_lengths` per candidate, and `example_labels` per sample or candidate."""
        candidates = self.parts_of(self.counts, indices)
        return {
            **super().extras(indices),
            "example_labels": self.labels[indices if self.labels.dtype.kind == "i" else candidates],
            "num_choices": self.counts[indices],
            "choice_lengths": self.choice_lengths[candidates],
        }


@dataclass(eq=False)
class ListReader(ExampleReader[Candidates]):
    """Reads lists of candidates.

    The candidates of a row are in one column each (the last ones may be empty), or all in one column. That column has a
    list, a mapping of `text` and `label` (candidates' names), JSON of these, or a text to split at `label_separator`.
    """

    text_column: str
    choices_column: str
    choice_columns: Sequence[str]
    label_column: str
    id_column: str | None
    label_separator: str | None
    context_column: str | None = field(default=None, init=False)
    noun: ClassVar[str] = "choice"
    """The word for a candidate in messages."""
    fewest: ClassVar[int] = 2

    @abstractmethod
    def label(self, row: Row, count: int, labelled: bool) -> object:
        """Returns the label of a row with `count` candidates; None if it is missing, which is an error if `labelled`."""

    @abstractmethod
    def labels(self, examples: list[Candidates]) -> NDArray[np.number]:
        """Returns the labels of the examples [E], or of their candidates [X]."""

    def columns(self) -> tuple[str, ...]:
        context = (self.context_column,) if self.context_column else ()
        choices = tuple(self.choice_columns or (self.choices_column,))
        return (*context, self.text_column, *choices, self.label_column)

    def examples(self, rows: Rows, labelled: bool) -> list[Candidates]:
        examples = []
        for number, row in enumerate(rows.rows, rows.first):
            with rows.bad.row():
                text = row.text(self.text_column, "data.text_column")
                before = self.context_column
                context = row.text(before, "data.context_column") if before else None
                candidates, names = self.choices(row)
                if labelled:
                    row.column(self.label_column, "data.label_column")
                label = self.label(row, len(candidates), labelled)
                name = row.id(self.id_column, number)
                examples.append(Candidates(name, text, context, candidates, names, label, row.where))
        return examples

    def pairs(self, example: Candidates) -> list[tuple[str, str]]:
        """Returns two texts for each candidate: query and candidate, or context and the text with the candidate."""
        between = "" if example.context is None else f"{example.text} "
        return [(example.context or example.text, between + candidate) for candidate in example.candidates]

    def texts(self, examples: list[Candidates]) -> Iterator[str]:
        """Yields context, query and candidates of each example as one text; equal texts are held out together."""
        return ("\n".join(filter(None, (e.context, e.text, *e.candidates))) for e in examples)

    def tokenize(
        self, examples: list[Candidates], tokenizer: Tokenizer, max_length: int, training: bool
    ) -> ListSequences:
        """Returns one sample per example; each candidate, together with its query, is cut off at `max_length` tokens."""
        pairs = [pair for example in examples for pair in self.pairs(example)]
        texts = [[pair[i] for pair in pairs] for i in range(2)]
        ids, types = [], []
        for _, encoding in encode(tokenizer, *texts, truncation="longest_first", max_length=max_length):
            ids.append(np.array(encoding.ids, np.int32))
            types.append(np.array(encoding.type_ids, np.int8))
        counts = np.array([len(example.candidates) for example in examples], np.int64)
        parts = [slice(start, end) for start, end in pairwise([0, *np.cumsum(counts)])]
        with_types = "token_type_ids" in tokenizer.model_input_names
        token_types = [concatenate(types[part], np.int8) for part in parts] if with_types else None
        sequences = ListSequences(examples, [concatenate(ids[part], np.int32) for part in parts], token_types)
        sequences.counts = counts
        sequences.choice_lengths = np.array([len(one) for one in ids], np.int32)
        sequences.labels = self.labels(examples)
        return sequences

    def raw_choices(self, row: Row) -> object:
        """Returns the candidates in a row as a list or mapping, if necessary from JSON or split at the separator."""
        is_each = all(name in row.values for name in self.choice_columns)
        if self.choice_columns and (is_each or self.choices_column not in row.values):
            columns = [row.column(name, "data.choice_columns") for name in self.choice_columns]
            while columns and is_missing(columns[-1]):
                columns.pop()
            return columns
        others = f"data.choice_columns where each {self.noun} has a column of its own"
        cell = of_json(row.column(self.choices_column, f"data.choices_column, or {others}"))
        return cell.split(self.label_separator) if isinstance(cell, str) and self.label_separator else cell

    def choices(self, row: Row) -> tuple[list[str], list[str]]:
        """Returns the texts of the candidates, and their names. Raises BadRow for too few or empty candidates."""
        items, letters = self.raw_choices(row), (product(ascii_uppercase, repeat=size) for size in count(1))
        names = map("".join, chain.from_iterable(letters))
        if isinstance(items, Mapping) and "text" in items:
            names = map(str, items.get("label", names))
            items = list(items["text"])
        if not isinstance(items, list) or len(items) < self.fewest:
            form = "expected a list of two or more, or text with data.label_separator"
            raise BadRow(row.where, f"the {self.noun}s are {items!r:.60}: {form}", f"no {self.noun}s")
        texts = ["" if is_missing(one) else spell(one).strip() for one in items]
        if "" in texts:
            problem = f"{self.noun} {texts.index('') + 1} of {len(texts)} is empty"
            raise BadRow(row.where, problem, f"empty {self.noun}")
        return texts, list(islice(names, len(texts)))


def of_json(cell: object) -> Any:
    """Returns the value of a cell, parsed if it is text with JSON."""
    with suppress(ValueError, RecursionError):
        return to_python(json.loads(cell) if isinstance(cell, str) else cell)
    return cell
