"""The base classes of finetuning data: readers of rows, and tokenised samples with their targets."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.data.labelled.spelling import is_missing, to_python
from tiryns.runner.data.micro_batch import FlatSamples, TaskArguments, Tokenizer
from tiryns.runner.data.read.bad_rows import BadRows
from tiryns.runner.data.read.rows import LabelRule, Row, Rows, RowSource
from tiryns.runner.order.ranges import ranges

Example = TypeVar("Example")
Scalar = TypeVar("Scalar", bound=np.generic)

Integers = Sequence[int] | NDArray[np.integer]

Learnt = Mapping[str, Any]
"""The results of a reader's `learn` in plain values, which are exported with the model."""

TOKENISED_AT_ONCE = 1024
"""Examples that the tokenizer gets at a time."""


class TaskSequences:
    """D tokenised samples of E examples, in memory: an example may have several samples (windows of a long text)."""

    example_of: ClassVar[str] = ""
    """The attribute with the number of each sample's example [D]; empty if each example has one sample."""

    targets: ClassVar[tuple[str, ...]] = ()
    """The names of the attributes that hold targets. The fingerprint covers these arrays too, after the tokens."""

    def __init__(
        self,
        examples: Sequence[object],
        ids: Sequence[Integers],
        token_types: Sequence[Integers] | None = None,
    ) -> None:
        self.examples, self.ids = examples, concatenate(ids, np.int32)
        self.token_types = None if token_types is None else concatenate(token_types, np.int8)
        self._lengths = np.array([len(one) for one in ids], dtype=np.int32)
        self._starts = np.cumsum(self._lengths, dtype=np.int64) - self._lengths

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def num_tokens(self) -> int:
        """The number of tokens of all samples."""
        return len(self.ids)

    def owners(self) -> NDArray[np.int64]:
        """Returns the number of each sample's example [D]."""
        if self.example_of:
            return np.asarray(getattr(self, self.example_of))
        if len(self) != len(self.examples):
            raise ValueError(f"{type(self).__name__} does not tell to which example each sample belongs")
        return np.arange(len(self))

    def lengths(self, indices: NDArray[np.int64]) -> NDArray[np.int32]:
        """Returns the number of tokens of each sample in `indices`."""
        return self._lengths[indices]

    def gather(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Returns the tokens of the samples, concatenated [N], and the length of each sample."""
        return self.ids[self.places(indices)].astype(np.int64), self._lengths[indices]

    def extras(self, indices: NDArray[np.int64]) -> FlatSamples:
        """Returns further columns for the collator: the indices as `samples` [D], and `token_type_ids` [N] for pairs."""
        columns: FlatSamples = {"samples": np.asarray(indices, dtype=np.int64)}
        if self.token_types is not None:
            columns["token_type_ids"] = self.token_types[self.places(indices)]
        return columns

    def places(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the indices of the samples' tokens in `ids`, concatenated [N]."""
        return ranges(self._starts[indices], self._lengths[indices].astype(np.int64))

    @staticmethod
    def parts_of(counts: NDArray[np.int64], indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns where the parts of the samples `indices` are in an array of all parts; sample d has `counts[d]` parts.

        Example:
            >>> TaskSequences.parts_of(np.array([2, 3, 1]), np.array([2, 0])).tolist()
            [5, 0, 1]
        """
        return ranges((np.cumsum(counts) - counts)[indices], counts[indices])

    @cached_property
    def fingerprint(self) -> str:
        """A hash of every token and target."""
        return hashlib.blake2b(b"".join(a.tobytes() for a in self.arrays()), digest_size=12).hexdigest()

    def arrays(self) -> list[NDArray[np.generic]]:
        """Returns the arrays of the fingerprint: tokens, and `targets`."""
        return [self.ids, self._lengths, *(getattr(self, name) for name in self.targets)]


class ExampleReader(ABC, Generic[Example]):
    """Reads the columns of one task, takes the labels from the training examples, and tokenises.

    Its constructor takes the `READER_SETTINGS` that it needs, by their names.
    """

    rows_hold: ClassVar[str] = "texts"
    """The kind of columns to look for if one is missing: `texts`, `words`, `answers`, `pairs` or `lists`.

    A list in the label column of `words` is a label for each word, and not several labels of one example.
    """

    joins_rows: ClassVar[bool] = False
    """Whether an example may be made of several rows. Predictions are then for the rows that `arranged` returns."""

    learnt: ClassVar[tuple[str, ...]] = ()  # attributes of plain values, which `learn` sets

    by_characters = False
    """Whether offsets count characters, even if the annotated texts fit another unit."""

    rule = LabelRule.AS_NAMED
    """The rule by which labels are read."""

    def columns(self) -> tuple[str, ...]:
        """Returns the columns that every row must have, if any. A csv file without them may have no header line."""
        return ()

    def label_names(self) -> tuple[str, ...]:
        """Returns the columns that may hold labels. Predictions do not need these columns."""
        return (str(getattr(self, "label_column", "")),)

    def has_label(self, row: Row, column: str) -> bool:
        """Returns whether a row has a label in a column."""
        return not is_missing(to_python(row.values.get(column)))

    def source(self, source: RowSource, part: str) -> RowSource:
        """Returns the source that rows are read from; a reader may accept further forms of a source and convert them."""
        return source

    def arranged(self, rows: Rows) -> Rows:
        """Returns rows with the columns that the reader takes, made from other columns. Other methods get these rows."""
        return rows

    @abstractmethod
    def examples(self, rows: Rows, labelled: bool) -> list[Example]:
        """Returns the examples of a source. Raises ValueError, naming the row, for a missing column or a wrong value.

        Implementations handle each row in a block `with rows.bad.row():`, which counts a BadRow or raises it.
        """

    def learn(self, examples: list[Example], rows: Rows) -> None:
        """Takes the names of the labels and the like from the training examples."""

    @abstractmethod
    def tokenize(
        self, examples: list[Example], tokenizer: Tokenizer, max_length: int, training: bool
    ) -> TaskSequences:
        """Returns the samples of the examples, with their targets."""

    @abstractmethod
    def texts(self, examples: list[Example]) -> Iterator[str]:
        """Yields a text per example to train tokenizers on. Without `group_column`, equal texts are held out together."""

    def read_by(self, rule: LabelRule) -> None:
        """Sets the rule by which examples are read: the rule of an earlier run or model."""
        self.rule, self.by_characters = rule, rule is LabelRule.FROM_ZERO

    def target(self, example: Example) -> object:
        """Returns the target of an example, after `learn`; raises BadRow if it has none, such as for an unknown label."""
        return None

    def check(self, example: Example) -> None:
        """Raises BadRow for an example that cannot be used, after `learn`; by default, for one without a `target`."""
        self.target(example)

    def usable(self, examples: list[Example], bad: BadRows) -> list[Example]:
        """Returns the examples that pass `check`; for all others, `bad` raises an error or counts them."""
        usable_examples = []
        for example in examples:
            with bad.row():
                self.check(example)
                usable_examples.append(example)
        return usable_examples

    def conflicts(self, examples: list[Example]) -> list[str]:
        """Returns a line for each text that occurs with different labels, after `learn`."""
        return []

    def strata(self, examples: list[Example]) -> list[str]:
        """Returns each example's stratum, after `learn` (by default one for all). Folds get equal shares of a stratum."""
        return [""] * len(examples)

    def collator_arguments(self) -> TaskArguments:
        """Returns the arguments of the objective's collator that depend on labels and columns."""
        return {}

    def state_dict(self) -> Learnt:
        """Returns the results of `learn` in plain values, which are exported with the model."""
        return {name: getattr(self, name) for name in self.learnt}

    def restore(self, state: Learnt) -> None:
        """Restores the results of an earlier `learn`; the reader then tokenises examples, with labels or without."""
        for name in self.learnt:
            setattr(self, name, state[name])

    def baselines(self, sequences: TaskSequences) -> dict[str, float]:
        """Returns metrics of a set that need no model, for comparison."""
        return {}

    def describe(self) -> dict[str, str]:
        """Returns facts for the summary at the start of a run."""
        return {}


READER_SETTINGS = (
    *("text_column", "pair_column", "context_column", "label_column", "label_columns", "id_column"),
    *("labels", "problem_type", "label_separator", "doc_stride", "choices_column", "choice_columns"),
    "tag_columns",
)
"""The settings of labelled data that readers take."""

CHANGEABLE = (*READER_SETTINGS, "negative_columns")
"""The settings that a prediction may override, including `negative_columns` of pairs."""


def concatenate(parts: Sequence[Integers], dtype: type[Scalar]) -> NDArray[Scalar]:
    """Returns sequences of integers, concatenated into one array of `dtype`."""
    return np.concatenate([np.empty(0, dtype), *parts], dtype=dtype, casting="unsafe")


def encode(tokenizer: Tokenizer, *columns: Sequence[object], **options: object) -> Iterator[tuple[int, Any]]:
    """Yields the number of an example and a tokenizer's `Encoding`, for each example or each window of an example."""
    for start in range(0, len(columns[0]), TOKENISED_AT_ONCE):
        block = [column[start : start + TOKENISED_AT_ONCE] for column in columns]
        batch = tokenizer(*block, return_attention_mask=False, **options)
        examples = batch.get("overflow_to_sample_mapping", range(len(block[0])))
        for example, encoding in zip(examples, batch.encodings, strict=True):
            yield start + example, encoding
