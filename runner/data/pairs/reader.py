"""Rows of a query, a passage that belongs to it, and hard negatives or a score.

Letters in shapes: D rows, X texts of all rows, N tokens.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.data.labelled.examples import ExampleReader, Learnt, TaskSequences, concatenate, encode
from tiryns.runner.data.labelled.lists import of_json
from tiryns.runner.data.labelled.spelling import is_missing, parse_number
from tiryns.runner.data.micro_batch import FlatSamples, TaskArguments, Tokenizer
from tiryns.runner.data.read.bad_rows import BadRow
from tiryns.runner.data.read.beir import read_beir
from tiryns.runner.data.read.rows import Row, Rows, RowSource
from tiryns.runner.data.text.holdout import digest


class Pair(NamedTuple):
    """A row: the query `text`, its passage `pair`, hard `negatives` and a score."""

    id: str
    text: str
    pair: str
    negatives: list[str]
    score: float
    """NaN if the row has no score."""
    match: str | None
    """The id of the passage; None if unknown."""
    where: str
    set: str = ""
    """The name of the row's training set, if there are several sets."""

    @property
    def texts(self) -> list[str]:
        """Query, passage and hard negatives."""
        return [self.text, self.pair, *self.negatives]


class PairSequences(TaskSequences):
    """One sample per row, with its texts one after the other."""

    examples: Sequence[Pair]
    text_lengths: NDArray[np.int32]  # [X]
    text_counts: NDArray[np.int64]  # [D]
    text_ids: NDArray[np.int64]  # [X], the same for equal texts
    match_ids: NDArray[np.int64]  # [D]
    scores: NDArray[np.float64]  # [D]
    targets = ("text_lengths", "text_counts", "match_ids", "scores")

    def extras(self, indices: NDArray[np.int64]) -> FlatSamples:
        texts = self.parts_of(self.text_counts, indices)
        return {
            **super().extras(indices), "text_counts": self.text_counts[indices],
            "text_lengths": self.text_lengths[texts], "text_ids": self.text_ids[texts],
            "match_ids": self.match_ids[indices], "scores": self.scores[indices].astype(np.float32),
        }  # fmt: skip

    def laid_out_ids(self, count: int) -> NDArray[np.int64]:
        """Returns the `text_ids` of each row [D, count]; cells after the last text of a row are 0."""
        ids = np.zeros((len(self), count), np.int64)
        ids[np.arange(count) < self.text_counts[:, None]] = self.text_ids
        return ids


@dataclass(eq=False)
class PairsReader(ExampleReader[Pair]):
    """Reads the columns of pairs; it learns only the highest number of hard negatives of a row."""

    rows_hold, learnt = "pairs", ("most_negatives",)

    text_column: str
    pair_column: str
    negative_columns: Sequence[str]
    label_column: str | None
    match_column: str | None
    id_column: str | None
    query_prompt: str | None
    passage_prompt: str | None
    max_query_length: int | None

    def __post_init__(self) -> None:
        self.prompts = (self.query_prompt or "", self.passage_prompt or "")
        self.most_negatives = 0
        """The highest number of hard negatives of a row, in all sets read so far."""
        self.in_training = True
        """Whether rows must have the columns of hard negatives; rows of evaluation sets may lack them."""

    def source(self, source: RowSource, part: str) -> RowSource:
        """Returns the pairs of a folder of BEIR, and any other source as it is."""
        return read_beir(source, part) or source

    def columns(self) -> tuple[str, ...]:
        others = (name for name in (self.label_column, self.match_column) if name)
        return (self.text_column, self.pair_column, *self.negative_columns, *others)

    def label_names(self) -> tuple[str, ...]:
        """Returns the columns of hard negatives, score and passage id, which a single query or passage does not have."""
        return self.columns()[2:]

    def examples(self, rows: Rows, labelled: bool) -> list[Pair]:
        pairs = []
        for number, row in enumerate(rows.rows):
            with rows.bad.row():
                query = row.text(self.text_column, "data.text_column")
                passage = row.text(self.pair_column, "data.pair_column")
                columns = [n for n in self.negative_columns if self.in_training or n in row.values]
                texts = (text for n in columns for text in texts_in(row, n, "data.negative_columns"))
                negatives = [text for text in texts if text.strip()]
                match = self.match_column and row.column(self.match_column, "data.match_column")
                match = None if is_missing(match) else str(match)
                name, score = row.id(self.id_column, number), self._score(row, labelled)
                pairs.append(Pair(name, query, passage, negatives, score, match, row.where))
        self.most_negatives = max([self.most_negatives, *(len(pair.negatives) for pair in pairs)])
        return pairs

    def learn(self, examples: list[Pair], rows: Rows) -> None:
        """Makes the columns of hard negatives optional for later rows: all training rows have been read."""
        self.in_training = False

    def _score(self, row: Row, labelled: bool) -> float:
        if (name := self.label_column) is None:
            return float("nan")
        value = row.column(name, "data.label_column") if labelled else row.values.get(name)
        if is_missing(value):
            if labelled:
                raise BadRow(row.where, f"there is no score in column {name!r}", "no score")
            return float("nan")
        if np.isnan(score := finite_number(value)):
            problem = f"the score in column {name!r} is {value!r:.40}, expected a number"
            raise BadRow(row.where, problem, "no score")
        return score

    def tokenize(
        self, examples: list[Pair], tokenizer: Tokenizer, max_length: int, training: bool
    ) -> PairSequences:
        """Returns one sample per row; each text is cut off at its maximum length, prompt included."""
        of_query, of_passage = self.prompts
        queries = [of_query + pair.text for pair in examples]
        passages = [of_passage + text for pair in examples for text in pair.texts[1:]]

        def ids_of(texts: list[str], longest: int) -> Iterator[list[int]]:
            return (one.ids for _, one in encode(tokenizer, texts, truncation=True, max_length=longest))

        of_queries = ids_of(queries, self.max_query_length or max_length)
        of_passages = ids_of(passages, max_length)
        ids = [[next(of_queries), *(next(of_passages) for _ in pair.texts[1:])] for pair in examples]
        sequences = PairSequences(examples, [concatenate(texts, np.int32) for texts in ids])
        sequences.text_lengths = np.array([len(text) for texts in ids for text in texts], np.int32)
        sequences.text_counts = np.array([len(texts) for texts in ids], np.int64)
        texts = [digest(text) | 1 for pair in examples for text in pair.texts]  # | 1: never 0
        matches = [0 if pair.match is None else digest(pair.match) | 1 for pair in examples]
        sequences.text_ids = np.array(texts, np.uint64).view(np.int64)
        sequences.match_ids = np.array(matches, np.uint64).view(np.int64)
        sequences.scores = np.array([pair.score for pair in examples], np.float64)
        return sequences

    def texts(self, examples: list[Pair]) -> Iterator[str]:
        return (f"{pair.text}\n{pair.pair}" for pair in examples)

    def collator_arguments(self) -> TaskArguments:
        return {"texts_per_row": 2 + self.most_negatives, "prompts": self.prompts}

    def restore(self, state: Learnt) -> None:
        self.in_training = False
        super().restore(state)

    def describe(self) -> dict[str, str]:
        return {"hard negatives": f"up to {self.most_negatives} of a row"} if self.most_negatives else {}


def index_of(texts: Iterable[str]) -> dict[str, int]:
    """Returns the index of each distinct text, in their order."""
    return {text: number for number, text in enumerate(dict.fromkeys(texts))}


def own_passages(
    pairs: Sequence[Pair], queries: Mapping[str, int], passages: Mapping[str, int]
) -> tuple[list[dict[int, None]], list[set[int]]]:
    """Returns each query's own passages, and all that are no negatives of it; by the index of each text.

    The latter also have the passages of rows with the same match id, and any passage that equals the query's text.
    """
    positives: list[dict[int, None]] = [{} for _ in queries]
    matching: dict[str | None, set[int]] = {}
    for pair in pairs:
        positives[queries[pair.text]][passages[pair.pair]] = None
        matching.setdefault(pair.match, set()).add(passages[pair.pair])
    matching[None] = set()
    exclusions: list[set[int]] = [set() for _ in queries]
    for pair in pairs:
        texts = {passages[text] for text in (pair.text, pair.pair) if text in passages}
        exclusions[queries[pair.text]] |= matching[pair.match] | texts
    return positives, exclusions


def texts_in(row: Row, name: str, setting: str) -> list[str]:
    """Returns the texts of a cell: an empty cell, a text, a list of texts, or such a list as JSON. BadRow for others."""
    cell = row.column(name, setting)
    value = of_json(cell)
    if isinstance(cell, str) and not (isinstance(value, list) and all(isinstance(t, str) for t in value)):
        value = cell  # as `12` and `null`, which are JSON of no list
    texts = [text for text in (value if isinstance(value, list) else [value]) if not is_missing(text)]
    if wrong := [text for text in texts if not isinstance(text, str)]:
        problem = f"column {name!r} holds {wrong[0]!r:.40}, expected a text or a list of texts"
        raise BadRow(row.where, problem, "no text")
    return texts


def finite_number(value: object) -> float:
    """Returns the number of a score or a grade; NaN for anything else, and for infinity.

    Example:
        >>> [finite_number(value) for value in ("0.5", 2, "good", "inf")]
        [0.5, 2.0, nan, nan]
    """
    with suppress(TypeError, ValueError, OverflowError):
        if np.isfinite(number := float(parse_number(value))):
            return number
    return float("nan")
