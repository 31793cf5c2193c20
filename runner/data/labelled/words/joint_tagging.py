"""Joint tagging data: sentences of words, each word with a label in each of several columns.

Letters in shapes: N tokens, W words, K columns.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.data.labelled.examples import ExampleReader, Learnt, TaskSequences
from tiryns.runner.data.labelled.labels import majority_accuracy
from tiryns.runner.data.labelled.spelling import to_python
from tiryns.runner.data.labelled.token_classification import (
    Sentence,
    SentenceSequences,
    TokenClassificationReader,
)
from tiryns.runner.data.labelled.words.spans import OFFSETS, TEXT, labels_of, word_places, words_of
from tiryns.runner.data.micro_batch import FlatSamples, TaskArguments, Tokenizer
from tiryns.runner.data.read.bad_rows import BadRow, MissingColumn
from tiryns.runner.data.read.formats import no_column
from tiryns.runner.data.read.opened import TagColumns, named_columns
from tiryns.runner.data.read.rows import LabelRule, Rows

SEPARATOR = "="
"""The sign between column and label in the label names of a model, such as `upos=NOUN`."""


class TaggedSentence(NamedTuple):
    """A sentence with its labels by column."""

    sentence: Sentence
    labels: dict[str, list[str]]

    @property
    def where(self) -> str:
        """File and row, for messages."""
        return self.sentence.where

    def of_column(self, name: str) -> Sentence:
        """Returns the sentence with the labels of one column, or without labels if it lacks the column."""
        return self.sentence._replace(labels=self.labels.get(name))


class TaggedSequences(TaskSequences):
    """Samples of sentences with several columns of labels; `columns` has the same samples with one column each."""

    def __init__(
        self,
        examples: Sequence[TaggedSentence],
        columns: Mapping[str, SentenceSequences],
        names: Sequence[str],
    ) -> None:
        self.examples, self.columns, self.names = examples, columns, names
        self.words = next(iter(columns.values()))
        """The samples with their words and the labels of the first column."""
        self.ids, self.token_types = self.words.ids, self.words.token_types
        self._lengths, self._starts = self.words._lengths, self.words._starts

    def extras(self, indices: NDArray[np.int64]) -> FlatSamples:
        """Adds each token's word, its labels [N, K] (-100 for none), and whether it begins the word."""
        fields = self.words.extras(indices)
        del fields["token_labels"]
        labels = [one.extras(indices)["token_labels"] for one in self.columns.values()]
        return {**fields, "tag_labels": np.stack(labels, axis=1)}

    def owners(self) -> NDArray[np.int64]:
        return self.words.owners()

    def arrays(self) -> list[NDArray[np.generic]]:
        return [*self.words.arrays(), *(one.word_labels for one in self.columns.values())]


class JointTaggingReader(ExampleReader[TaggedSentence]):
    """Columns of joint tagging data: a list of words, and a list of labels in each of `tag_columns`.

    `tag_columns` are a list of columns, one text with commas, or a mapping from names in the model to columns. A row may
    lack the labels of a column, or hide them with -1 for each word: they are then neither learnt nor measured. A text in
    place of a list of words is split into words, for prediction.
    """

    rows_hold = "words"

    def __init__(
        self,
        text_column: str,
        label_column: str,
        tag_columns: TagColumns,
        id_column: str | None,
        labels: Mapping[str, Sequence[object]] | None,
    ) -> None:
        self.text_column, self.label_column, self.id_column = text_column, label_column, id_column
        self.tag_columns = named_columns(tag_columns)
        labels_by_name = labels or {}
        is_mapping = isinstance(labels_by_name, Mapping)
        unknown = [name for name in labels_by_name if name not in self.tag_columns] if is_mapping else []
        if unknown or not is_mapping:
            problem = f"names {unknown[0]!r}" if is_mapping else "is a list"
            raise ValueError(
                f"data.labels {problem}: expected the labels of some of data.tag_columns, such as "
                f"{{{next(iter(self.tag_columns))}: [A, B]}}"
            )
        self.readers = {
            name: TokenClassificationReader(text_column, column, id_column, labels_by_name.get(name))
            for name, column in self.tag_columns.items()
        }
        self.frequent: dict[str, dict[str, str]] = {}

    def label_names(self) -> tuple[str, ...]:
        """Returns the columns of labels, and `label_column`, in which `arranged` joins the labels of all columns."""
        return (self.label_column, *self.tag_columns.values())

    def arranged(self, rows: Rows) -> Rows:
        """Joins the labels of all columns in `label_column`, and splits a text into words with their places."""
        arranged_rows, cuts_signs = [], next(iter(self.readers.values())).cuts_signs
        for row in rows.rows:
            columns: dict[str, object] = {}
            labels = {name: to_python(row.values.get(column)) for name, column in self.tag_columns.items()}
            lists = {name: tags for name, tags in labels.items() if isinstance(tags, list) and tags}
            hidden = [name for name, tags in lists.items() if tags.count(-1) == len(tags)]
            if visible := {n: tags for n, tags in labels.items() if tags is not None and n not in hidden}:
                columns[self.label_column] = visible
            if isinstance(text := row.values.get(self.text_column), str) and text.strip():
                places = word_places(text, cuts_signs)
                words = [text[start:end] for start, end in places]
                columns |= {TEXT: text, OFFSETS: places, self.text_column: words}
            arranged_rows.append(row._replace(values={**row.values, **columns}))
        return rows._replace(rows=arranged_rows)

    def examples(self, rows: Rows, labelled: bool) -> list[TaggedSentence]:
        sentences, classes = [], {name: reader.class_names(rows) for name, reader in self.readers.items()}
        for number, row in enumerate(rows.rows, rows.first):
            with rows.bad.row():
                if self.text_column not in row.values:
                    there = [column for column in row.values if column != self.label_column]
                    raise ValueError(str(no_column(row.where, self.text_column, there, "data.text_column")))
                words = words_of(row, self.text_column)
                cell = row.values.get(self.label_column)
                row_labels = cell if isinstance(cell, dict) else {}  # else a column that was not joined
                if labelled and not row_labels:
                    names = ", ".join(map(str, self.tag_columns.values()))
                    if any(column in row.values for column in self.tag_columns.values()):
                        raise BadRow(row.where, f"there is no label in columns {names}", "no label")
                    header = ", ".join(map(str, row.values))
                    problem = f"has none of the columns {names}; it has: {header}. Set data.tag_columns"
                    raise MissingColumn(row.where, problem)
                # not from the row, where `label_column` may have the name of one of the columns
                tags = row._replace(values={self.tag_columns[name]: one for name, one in row_labels.items()})
                labels = {
                    name: labels_of(tags, self.tag_columns[name], len(words), classes[name])
                    for name in self.readers
                    if name in row_labels
                }
                name = row.id(self.id_column, number)
                sentences.append(TaggedSentence(Sentence.of(row, name, words, None), labels))
        return sentences

    def read_by(self, rule: LabelRule) -> None:
        super().read_by(rule)
        for reader in self.readers.values():
            reader.read_by(rule)

    def learn(self, examples: list[TaggedSentence], rows: Rows) -> None:
        for name, reader in self.readers.items():
            sentences = [example.of_column(name) for example in examples if name in example.labels]
            if not sentences:
                raise ValueError(
                    f"no row of the training data has labels in the column {self.tag_columns[name]!r}; "
                    f"the first row has: {', '.join(map(str, rows.rows[0].values))}. Set data.tag_columns"
                )
            try:
                reader.learn(sentences, rows)
            except ValueError as error:
                raise ValueError(f"the column {self.tag_columns[name]!r}: {error}") from None
            counts: dict[str, Counter[str]] = defaultdict(Counter)
            for sentence in sentences:
                for word, label in zip(sentence.words, sentence.labels or [], strict=True):
                    counts[word][label] += 1
            self.frequent[name] = {word: count.most_common(1)[0][0] for word, count in counts.items()}

    def tokenize(
        self, examples: list[TaggedSentence], tokenizer: Tokenizer, max_length: int, training: bool
    ) -> TaggedSequences:
        """Returns the samples of the sentences, once, with the labels of each column."""
        first = next(iter(self.readers.values()))
        cut = first.cut([example.sentence for example in examples], tokenizer, max_length)
        columns = {
            name: reader.add_labels(copy(cut), [example.of_column(name) for example in examples])
            for name, reader in self.readers.items()
        }
        return TaggedSequences(examples, columns, self.flat_names())

    def target(self, example: TaggedSentence) -> list[list[int]]:
        """Returns the targets of each column; BadRow for a label that the training data lacks."""
        return [reader.target(example.of_column(name)) for name, reader in self.readers.items()]

    def texts(self, examples: list[TaggedSentence]) -> Iterator[str]:
        """Yields the words of each sentence with spaces between them."""
        return (" ".join(example.sentence.words) for example in examples)

    def flat_names(self) -> list[str]:
        """Returns the labels of all columns, each as `column=label`."""
        return [f"{name}{SEPARATOR}{label}" for name, one in self.readers.items() for label in one.names]

    def collator_arguments(self) -> TaskArguments:
        return {"labels": self.flat_names()}

    def state_dict(self) -> Learnt:
        return {"columns": {name: reader.state_dict() for name, reader in self.readers.items()}}

    def restore(self, state: Learnt) -> None:
        """Restores the labels of each column; ValueError unless the settings name the model's columns and no others."""
        if unknown := state["columns"].keys() ^ self.readers.keys():
            raise ValueError(
                f"data.tag_columns: the model tags {', '.join(state['columns'])}, and the settings name "
                f"{', '.join(self.readers)} (different: {', '.join(sorted(unknown))}); use the model's names"
            )
        self.readers = {name: self.readers[name] for name in state["columns"]}
        for name, reader in self.readers.items():
            reader.restore(state["columns"][name])

    def baselines(self, sequences: TaskSequences) -> dict[str, float]:
        """Returns two accuracies per column: of its most frequent label, and of the most frequent label of each word."""
        assert isinstance(sequences, TaggedSequences)
        accuracies: dict[str, float] = {}
        for name, one in sequences.columns.items():
            majority = majority_accuracy(one.word_labels)
            accuracies |= {f"{figure}_{name}": value for figure, value in majority.items()}
            default, label_of_word = one.names[one.default_label], self.frequent.get(name, {})
            pairs = (pair for e in one.examples for pair in zip(e.words, e.labels or [], strict=False))
            right = [label_of_word.get(word, default) == label for word, label in pairs]
            if right and label_of_word:
                accuracies[f"word_majority_accuracy_{name}"] = sum(right) / len(right)
        return accuracies

    def describe(self) -> dict[str, str]:
        facts = [(name, fact) for name, one in self.readers.items() for fact in one.describe().items()]
        return {f"{fact} of {name}": value for name, (fact, value) in facts}


def columns_of_labels(names: Sequence[str]) -> dict[str, list[str]]:
    """Returns the labels of each column, given the label names of a model.

    Example:
        >>> columns_of_labels(["pos=NOUN", "pos=VERB", "feats=Number=Sing"])
        {'pos': ['NOUN', 'VERB'], 'feats': ['Number=Sing']}
    """
    labels: dict[str, list[str]] = {}
    for name in names:
        column, _, label = name.partition(SEPARATOR)
        labels.setdefault(column, []).append(label)
    return labels
