"""Token classification data: sentences of words, each word with a label."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiryns.conf.values import suggest
from tiryns.runner import log
from tiryns.runner.data.labelled.examples import ExampleReader, Learnt, TaskSequences, concatenate, encode
from tiryns.runner.data.labelled.labels import UNLABELLED, LabelCounts, majority_accuracy, names_of, tally
from tiryns.runner.data.labelled.spelling import ClassNames, counting_names, to_python
from tiryns.runner.data.labelled.words.annotations import choice_of, file_of, is_contested, offset_units
from tiryns.runner.data.labelled.words.spans import (
    ANNOTATIONS,
    ENTITIES_FORM,
    OFFSETS,
    TEXT,
    Annotated,
    annotations_of,
    labels_of,
    signs_alone,
    span_of,
    tags_of,
    word_places,
    words_of,
)
from tiryns.runner.data.labelled.words.tags import kept_scheme, tagging_of
from tiryns.runner.data.micro_batch import FlatSamples, TaskArguments, Tokenizer
from tiryns.runner.data.read.bad_rows import BadRow, first_names
from tiryns.runner.data.read.rows import LabelRule, Row, Rows
from tiryns.runner.data.text.vocabulary import read_words_as_text


class Sentence(NamedTuple):
    """Words with their labels; `labels` is None if the data have none, such as a test set."""

    id: str
    words: list[str]
    labels: list[str] | None
    where: str
    text: str | None = None
    """The text that the words were cut from."""
    places: Sequence[Sequence[int]] | None = None
    """The first character of each word in `text`, and the character after its last one."""

    @classmethod
    def of(cls, row: Row, name: str, words: list[str], labels: list[str] | None) -> "Sentence":
        """Returns the sentence of a row, with the text that its words were cut from, if any."""
        return cls(name, words, labels, row.where, row.values.get(TEXT), row.values.get(OFFSETS))


class SentenceSequences(TaskSequences):
    """Samples of sentences; a sentence longer than `max_length` tokens continues in further samples."""

    examples: Sequence[Sentence]
    words: NDArray[np.int32]  # [N], each token's word, counted through all sentences; -1 for special tokens
    first_pieces: NDArray[np.bool_]  # [N], whether the token is the first of its word
    word_labels: NDArray[np.int64]  # [W]
    has_pieces: NDArray[np.bool_]  # [W], whether the word has a token
    word_starts: NDArray[np.int64]  # [E + 1], where the words of each sentence begin
    sentences: NDArray[np.int64]  # [D], the example of each sample
    names: list[str]
    default_label: int  # the most frequent one
    scheme: str | None  # of tags, which all training sentences keep
    example_of, targets = "sentences", ("words", "word_labels")

    def extras(self, indices: NDArray[np.int64]) -> FlatSamples:
        """Adds each token's word, its label (-100 for special tokens), and whether it begins the word."""
        places = self.places(indices)
        words = self.words[places]
        labels = np.where(words >= 0, self.word_labels[words], UNLABELLED)
        own: FlatSamples = {"words": words, "token_labels": labels, "first_pieces": self.first_pieces[places]}
        return {**super().extras(indices), **own}

    def label_counts(self) -> LabelCounts:
        """Returns how many words have each label."""
        return tally(self.word_labels[self.has_pieces], len(self.names))


class TokenClassificationReader(ExampleReader[Sentence]):
    """Reads columns of token classification data. Label names are sorted, with `O` first if it occurs.

    Rows have a list of words and a list of labels. A text with entities by character offsets (see `spans`) is converted
    to both. A text alone is split as the training texts were; after training on lists, at white space and `signs_alone`.
    """

    rows_hold = "words"

    def __init__(
        self, text_column: str, label_column: str, id_column: str | None, labels: Sequence[object] | None
    ) -> None:
        self.text_column, self.label_column, self.id_column = text_column, label_column, id_column
        self.names = self.preset = names_of(labels)
        self.class_numbers: list[str] = []  # the class names of the training file
        self.cuts_signs: str | bool = ""
        """The signs that are split from the words of a text; True (all signs) after training on texts with entities."""
        self.words_as_text: bool | None = None
        """Whether the tokenizer was changed to read words as running text; False if the model's tokenizer was not."""

    def label_names(self) -> tuple[str, ...]:
        return tuple(name for name in (self.label_column, *ANNOTATIONS) if name != self.text_column)

    def arranged(self, rows: Rows) -> Rows:
        """Converts texts with entities to words, with their labels and their places in the text."""
        read, arranged_rows = list[tuple[Row, Annotated | None]](), []
        choice = choice_of(rows.rows, self.text_column, self.label_column, self.rule)
        for row in rows.rows:
            with rows.bad.row():
                words, labels = row.values.get(self.text_column), row.values.get(self.label_column)
                is_list = isinstance(labels, list) and all(isinstance(one, str | int) for one in labels)
                is_text = isinstance(words, str | None) and not (is_list and labels)
                form = (self.text_column, self.label_column, self.rule, choice)
                read.append((row, annotations_of(row.where, row.values, *form) if is_text else None))
        texts = ((row.where, one.text, one.marks or []) for row, one in read if one)
        units = offset_units(texts, self.by_characters)
        if conflicts := [row.where for row, one in read if one and is_contested(row.values)]:
            problem = "%d of %d texts have annotations that differ, of which the first counts: %s"
            log.warning(problem, len(conflicts), len(read), conflicts[0])
        for row, one in read:
            with rows.bad.row():
                if one is None:
                    arranged_rows.append(row)
                    continue
                places = word_places(one.text, one.marks is not None or self.cuts_signs)
                columns: dict[str, object] = {TEXT: one.text, OFFSETS: places}
                columns[self.text_column] = [one.text[start:end] for start, end in places]
                if one.marks is not None:
                    self.cuts_signs = True
                    marks = [m._replace(text=None) for m in one.marks] if self.by_characters else one.marks
                    spans = [span_of(row.where, one.text, mark, units[file_of(row.where)]) for mark in marks]
                    columns[self.label_column] = tags_of(row.where, one.text, places, spans)
                others = {name: value for name, value in row.values.items() if name != self.label_column}
                arranged_rows.append(row._replace(values={**others, **columns}))
        return rows._replace(rows=arranged_rows)

    def examples(self, rows: Rows, labelled: bool) -> list[Sentence]:
        classes, sentences = self.class_names(rows), []
        for number, row in enumerate(rows.rows, rows.first):
            with rows.bad.row():
                words = words_of(row, self.text_column)
                labels = None
                if labelled and TEXT in row.values and self.label_column not in row.values:
                    raise BadRow(row.where, f"a text without its entities; {ENTITIES_FORM}", "no entity")
                if labelled or row.values.get(self.label_column) is not None:
                    labels = labels_of(row, self.label_column, len(words), classes)
                sentences.append(Sentence.of(row, row.id(self.id_column, number), words, labels))
        return sentences

    def read_by(self, rule: LabelRule) -> None:
        """Sets the rule by which examples are read; by `FROM_ZERO`, the tokenizer keeps its normalizer."""
        super().read_by(rule)
        self.words_as_text = False if rule is LabelRule.FROM_ZERO else self.words_as_text

    def class_names(self, rows: Rows) -> ClassNames:
        """Returns the names of integer labels from the file, else from `data.labels`, else from the training file."""
        text_names = [] if all(map(str.isdecimal, self.preset)) else self.preset
        names = counting_names(rows.class_names.get(self.label_column), self.names, bool(self.preset))
        labels = (to_python(row.values.get(self.label_column)) for row in rows.rows)
        return ClassNames(names or text_names or self.class_numbers, labels, self.names)

    def learn(self, examples: list[Sentence], rows: Rows) -> None:
        counts = Counter(label for e in examples for label in e.labels or [])
        self.class_numbers = rows.class_names.get(self.label_column, [])
        labels = sorted(counts, key=lambda name: (name != "O", name))
        self.names = self.preset or list(self.class_numbers) or labels
        if len(self.names) < 2:
            raise ValueError(
                f"the training data has one label only, {first_names(self.names)}: there is nothing to tell apart"
            )
        words = Counter(word for e in examples for word in e.words)
        self.cuts_signs = self.cuts_signs or signs_alone(words)
        if len(words) <= len(self.names) and tagging_of(words) and not tagging_of(self.names):
            raise ValueError(
                f"the words are tags ({first_names(sorted(words))}) and the labels are words: swap data.text_column and "
                "data.label_column, or for CoNLL files set data.word_field=-1 data.tag_field=0"
            )
        self.numbers = {name: i for i, name in enumerate(self.names)}
        self.default_label = self.numbers.get(counts.most_common(1)[0][0], 0)
        self.scheme = kept_scheme(self.names, [(one.where, one.labels or []) for one in examples])

    def tokenize(
        self, examples: list[Sentence], tokenizer: Tokenizer, max_length: int, training: bool
    ) -> SentenceSequences:
        """Tokenises word by word, so that the word of every token is known."""
        return self.add_labels(self.cut(examples, tokenizer, max_length), examples)

    def cut(self, examples: list[Sentence], tokenizer: Tokenizer, max_length: int) -> SentenceSequences:
        """Returns the samples of sentences, without their labels."""
        if read_words_as_text(tokenizer, self.words_as_text is not False):
            self.words_as_text = True
        starts = np.cumsum([0, *(len(e.words) for e in examples)], dtype=np.int64)
        ids, words, owners = [], [], []
        cut = {"truncation": True, "max_length": max_length, "return_overflowing_tokens": True}
        sentences = [e.words for e in examples]
        for sentence, encoding in encode(tokenizer, sentences, is_split_into_words=True, **cut):
            ids.append(encoding.ids)
            owners.append(sentence)
            first = int(starts[sentence])
            words.append([-1 if word is None else first + word for word in encoding.word_ids])
        sequences = SentenceSequences(examples, ids)
        sequences.words, sequences.sentences = concatenate(words, np.int32), np.array(owners, dtype=np.int64)
        # a word that is cut by the end of a sample has one first piece
        sequences.first_pieces = np.zeros(len(sequences.words), dtype=bool)
        real = np.flatnonzero(sequences.words >= 0)
        sequences.first_pieces[real] = np.diff(sequences.words[real], prepend=-1) != 0
        sequences.has_pieces = np.isin(np.arange(starts[-1]), sequences.words)
        sequences.word_starts = starts
        return sequences

    def add_labels(self, sequences: SentenceSequences, examples: list[Sentence]) -> SentenceSequences:
        """Returns the samples with the labels of the `examples`."""
        sequences.examples, sequences.names = examples, self.names
        sequences.word_labels = np.array([n for e in examples for n in self.target(e)], dtype=np.int64)
        sequences.default_label, sequences.scheme = self.default_label, self.scheme
        return sequences

    def target(self, example: Sentence) -> list[int]:
        """Returns the number of each word's label; BadRow for a label that the training data lacks."""
        if example.labels is None:
            return [UNLABELLED] * len(example.words)
        if unknown := next((label for label in example.labels if label not in self.numbers), None):
            problem = "is not among data.labels" if self.preset else "does not occur in the training data"
            hint = f"{first_names(self.names)}; data.labels may name all{suggest(unknown, self.names)}"
            raise BadRow(example.where, f"the label {unknown!r} {problem}: {hint}", "unknown label")
        return [self.numbers[label] for label in example.labels]

    def texts(self, examples: list[Sentence]) -> Iterator[str]:
        return (" ".join(e.words) for e in examples)

    def collator_arguments(self) -> TaskArguments:
        return {"labels": self.names}

    def state_dict(self) -> Learnt:
        state = {"labels": self.names, "default_label": self.default_label, "iob2": self.scheme == "IOB2"}
        scheme = None if state["iob2"] else self.scheme
        facts = {"scheme": scheme, "cuts_signs": self.cuts_signs, "words_as_text": self.words_as_text}
        return state | {name: one for name, one in facts.items() if one}

    def restore(self, state: Learnt) -> None:
        self.names, self.default_label = list(state["labels"]), int(state["default_label"])
        self.numbers = {name: i for i, name in enumerate(self.names)}
        # without either in older runs and in models trained elsewhere
        self.scheme = "IOB2" if state.get("iob2") else state.get("scheme")
        self.cuts_signs, self.words_as_text = state.get("cuts_signs", ""), state.get("words_as_text")
        if "iob2" not in state:  # trained elsewhere
            self.preset = self.preset or self.names  # which integers stand for
        else:
            self.words_as_text = bool(self.words_as_text)

    def baselines(self, sequences: TaskSequences) -> dict[str, float]:
        assert isinstance(sequences, SentenceSequences)
        return majority_accuracy(sequences.word_labels)

    def describe(self) -> dict[str, str]:
        tagging = tagging_of(self.names)
        fitting = f"{' or '.join(tagging.schemes)}, not kept" if tagging else "none of entities"
        return {"labels": first_names(self.names), "tags": self.scheme or fitting}
