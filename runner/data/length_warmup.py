"""A warm-up of the sequence length: in its first steps a run sees the beginnings of its samples."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.optim.schedule.phases import count_steps
from tiryns.runner.order.ranges import ranges


class GatheredSequences(Protocol):
    """Token sequences, read many at a time."""

    def __len__(self) -> int: ...

    def lengths(self, indices: NDArray[np.int64]) -> NDArray[np.int32]:
        """Tokens of each sequence."""

    def gather(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Tokens of the sequences end to end, and the length of each."""


@dataclass(frozen=True)
class LengthWarmup:
    """Longest sequences that grow along a line from `first` tokens to `last` over `steps` steps.

    Example:
        >>> warmup = LengthWarmup(first=32, last=128, steps=3, closing_ids=(3,))
        >>> [warmup.limit(step) for step in range(4)]
        [32, 64, 96, None]
    """

    first: int
    last: int
    steps: int
    closing_ids: tuple[int, ...]
    """Special tokens, which stay where a sequence ends with one."""

    @classmethod
    def of(cls, settings: Any, max_steps: int, special_ids: list[int]) -> "LengthWarmup | None":
        """That of the settings of a data set in a run of `max_steps`; raises ValueError for one that is none."""
        first, length = settings.length_warmup_from, settings.length_warmup_steps
        if first is None and not length:
            return None
        if first is None or not length:
            raise ValueError(
                f"data.length_warmup_from is {first} and data.length_warmup_steps {length}: a warm-up of the sequence "
                "length needs both"
            )
        if first >= settings.max_length:
            raise ValueError(
                f"data.length_warmup_from={first} must be less than data.max_length={settings.max_length}"
            )
        steps = count_steps(length, max_steps, "data.length_warmup_steps")
        return cls(first, settings.max_length, steps, tuple(special_ids))

    def limit(self, step: int) -> int | None:
        """Tokens of the longest sequence of a step, counted from 0; None after the warm-up."""
        if step >= self.steps:
            return None
        return self.first + (self.last - self.first) * step // self.steps

    def at(self, step: int, sequences: GatheredSequences) -> GatheredSequences:
        """The sequences as a step sees them."""
        limit = self.limit(step)
        return sequences if limit is None else Shortened(sequences, limit, self.closing_ids)

    def fingerprint(self) -> list[int]:
        """What the samples of a step depend on, compared at a resume."""
        return [self.first, self.last, self.steps]


@dataclass(frozen=True)
class Shortened:
    """Sequences cut to `limit` tokens; the special token at the end of one takes the place of its last."""

    sequences: GatheredSequences
    limit: int
    closing_ids: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.sequences)

    def lengths(self, indices: NDArray[np.int64]) -> NDArray[np.int32]:
        """Tokens of each sequence."""
        return np.minimum(self.sequences.lengths(indices), np.int32(self.limit))

    def gather(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Tokens of the sequences end to end, and the length of each."""
        ids, whole = self.sequences.gather(indices)
        kept = np.minimum(whole, np.int32(self.limit))
        stops, ends = np.cumsum(whole, dtype=np.int64), np.cumsum(kept, dtype=np.int64)
        short = ids[ranges(stops - whole, kept.astype(np.int64))]
        closed = (kept < whole) & np.isin(ids[stops - 1], self.closing_ids)
        short[ends[closed] - 1] = ids[stops[closed] - 1]
        return short, kept
