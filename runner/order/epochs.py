"""Samples of epochs: how one is named, and what samplers know of a dataset."""

from typing import NamedTuple, Protocol

import numpy as np


class EpochIndex(NamedTuple):
    """Sample `idx` of the dataset as it is in `epoch`: transforms may depend on both.

    Example:
        >>> EpochIndex(epoch=1, idx=7)
        EpochIndex(epoch=1, idx=7)
    """

    epoch: int
    idx: int


class SizedSequences(Protocol):
    """A dataset as samplers see it: how many sequences it has, and how long each is.

    Example:
        >>> class Constant(list):
        ...     lengths = lambda self, indices: np.full(len(indices), 16, np.int32)
        >>> dataset: SizedSequences = Constant("abc")
    """

    def __len__(self) -> int: ...

    def lengths(self, indices: np.ndarray, /) -> np.ndarray:
        """Tokens per sample, int32 [D], of int64 indices [D]."""
        ...
