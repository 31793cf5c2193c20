"""What reads the data of a finetuning task: rows to examples, and examples to tokenised samples with their targets."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from iolaus.runner.data.micro_batch import TaskArguments
from iolaus.runner.data.read.formats import no_column
from iolaus.runner.data.read.rows import Row, Rows

TOKENISED_AT_ONCE = 1024
"""Examples handed to the tokenizer at a time."""


class TaskSequences:
    """D tokenised samples of E examples, in memory: an example may have several samples (windows of a long text)."""

    def __init__(
        self,
        examples: Sequence[Any],
        ids: NDArray[np.int32],
        lengths: NDArray[np.int32],
        token_types: NDArray[np.int8] | None,
    ) -> None:
        self.examples, self.ids, self._lengths, self.token_types = examples, ids, lengths, token_types
        self._starts = np.cumsum(lengths, dtype=np.int64) - lengths

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def num_tokens(self) -> int:
        """Tokens of all samples."""
        return len(self.ids)

    def lengths(self, indices: NDArray[np.int64]) -> NDArray[np.int32]:
        """Tokens of each sample."""
        return self._lengths[indices]

    def gather(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Tokens of the samples end to end, and the length of each."""
        return self.ids[self.places(indices)].astype(np.int64), self._lengths[indices]

    def extras(self, indices: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """What a collator gets beside the tokens: `samples` [D], and `token_type_ids` [N] for pairs."""
        found: dict[str, NDArray[Any]] = {"samples": np.asarray(indices, dtype=np.int64)}
        if self.token_types is not None:
            found["token_type_ids"] = self.token_types[self.places(indices)]
        return found

    def places(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the tokens of the samples lie, end to end [N]."""
        lengths = self._lengths[indices].astype(np.int64)
        ends = np.cumsum(lengths)
        return np.repeat(self._starts[indices] - ends + lengths, lengths) + np.arange(lengths.sum())

    @cached_property
    def fingerprint(self) -> str:
        """A hash of every token and target."""
        return hashlib.blake2b(b"".join(a.tobytes() for a in self.arrays()), digest_size=12).hexdigest()

    def arrays(self) -> list[NDArray[Any]]:
        """What the fingerprint covers; a subclass adds its targets."""
        return [self.ids, self._lengths]


class ExampleReader(ABC):
    """Reads the columns of one task, learns its labels from the training examples, and tokenises.

    Its constructor takes those of the settings in `READER_SETTINGS` that it needs, by their names.
    """

    label_per_word: ClassVar[bool] = False
    """Whether a list in the label column is a label for each word, not several labels of one example."""

    @abstractmethod
    def examples(self, rows: Rows, labelled: bool) -> list[Any]:
        """The examples of a source; columns that are missing and values that cannot be are errors that name the row."""

    @abstractmethod
    def learn(self, examples: list[Any], rows: Rows) -> None:
        """Takes label names and the like from the training examples."""

    @abstractmethod
    def tokenize(self, examples: list[Any], tokenizer: Any, max_length: int, training: bool) -> TaskSequences:
        """The samples of the examples, with their targets."""

    @abstractmethod
    def texts(self, examples: list[Any]) -> Iterator[str]:
        """What a tokenizer may be trained on; also what must not be in both training and held-out examples."""

    @abstractmethod
    def collator_arguments(self) -> TaskArguments:
        """What the task's objective must know of labels and columns."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """What `learn` has found, in plain values, to be kept beside the exported model."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Takes up what an earlier `learn` has found; the task then tokenises examples, with labels or without."""

    def baselines(self, sequences: TaskSequences) -> dict[str, float]:
        """Figures that take no model, to hold a set's results against."""
        return {}

    def describe(self) -> dict[str, str]:
        """Facts for the summary at the start."""
        return {}


READER_SETTINGS = (
    *("text_column", "pair_column", "context_column", "label_column", "id_column"),
    *("labels", "problem_type", "label_separator", "doc_stride"),
)
"""The settings of labelled data that say how rows are read."""


class LabelledTask(Protocol):
    """What labelled data needs to know of its task; see `runner.tasks.Task`."""

    name: str

    def make_reader(self, settings: Mapping[str, Any]) -> ExampleReader:
        """The reader of its rows, by the settings of labelled data."""


def column(row: Row, name: str, setting: str) -> Any:
    """The value of a column.

    Raises:
        ValueError: there is no such column; the message names those there are.
    """
    if name not in row.values:
        raise no_column(row.where, name, row.values, setting)
    return row.values[name]


def text_of(row: Row, name: str, setting: str) -> str:
    """The text of a column.

    Raises:
        ValueError: it is no text, or empty.
    """
    value = column(row, name, setting)
    if not isinstance(value, str):
        raise ValueError(
            f"{row.where}: column {name!r} holds a {type(value).__name__}, expected text: {value!r:.80}"
        )
    if not value.strip():
        raise ValueError(f"{row.where}: the text in column {name!r} is empty; remove the row or fill it in")
    return value


def identity(row: Row, id_column: str | None, number: int) -> str:
    """What an example is called in the predictions: its id column, else a column `id`, else its number."""
    if id_column is not None:
        return str(column(row, id_column, "data.id_column"))
    return str(row.values.get("id", number))


def concatenated(parts: Sequence[Sequence[int]], dtype: Any) -> NDArray[Any]:
    """Lists of integers end to end."""
    total = sum(map(len, parts))
    return np.fromiter((value for part in parts for value in part), dtype=dtype, count=total)


def uses_token_types(tokenizer: Any) -> bool:
    """Whether models of this tokenizer tell the first text of a pair from the second by token types."""
    return "token_type_ids" in tokenizer.model_input_names


def first_names(names: Sequence[Any] | Mapping[Any, Any]) -> str:
    """The first few names, and how many there are."""
    shown = ", ".join(str(name) for name, _ in zip(names, range(8), strict=False))
    return f"{shown}, ... ({len(names)} in all)" if len(names) > 8 else shown
