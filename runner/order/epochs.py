"""Samples of epochs: how one is named, and what samplers know of a dataset."""

from typing import NamedTuple, Protocol

import numpy as np


class EpochIndex(NamedTuple):
    """Sample `idx` of the dataset as it is in `epoch`: transforms may depend on both."""

    epoch: int
    idx: int


class SizedSequences(Protocol):
    """What samplers need to know of a dataset: how many sequences, and how long each is."""

    def __len__(self) -> int: ...

    def lengths(self, indices: np.ndarray, /) -> np.ndarray:
        """Tokens per sample, int32 [D], of int64 indices [D]."""
        ...
