"""Many epochs over one dataset, each in an order of its own that is computed on access."""

import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Protocol, SupportsIndex, TypeVar

import numpy as np
import torch
from torch.utils.data import Dataset, TensorDataset

from tiryns.runner.order.permutation import epoch_seed, permute
from tiryns.runner.samplers.base import EpochIndex

T = TypeVar("T")
U = TypeVar("U")
T_co = TypeVar("T_co", covariant=True)


class SizedDataset(Protocol[T_co]):
    """Samples by integer index.

    Example:
        >>> dataset: SizedDataset[str] = ["a", "list", "is", "one"]
    """

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> T_co: ...


class MultiEpochDataset(Protocol[T_co]):
    """Samples by `EpochIndex`; the same index always gives the same data.

    Example:
        >>> dataset: MultiEpochDataset[str] = IdentityMultiEpochDatasetWrapper(["a", "list"])
        >>> dataset[EpochIndex(epoch=1, idx=0)]
        'a'
    """

    def __len__(self) -> int: ...

    def __getitem__(self, index: EpochIndex, /) -> T_co: ...


@dataclass
class MultiEpochDatasetWrapper(Dataset[U], Generic[T, U], ABC):
    """A dataset indexed by `EpochIndex`, which applies a transform to the samples of a dataset indexed by integers.

    Example:
        >>> @dataclass
        ... class Scaled(MultiEpochDatasetWrapper[int, float]):
        ...     factor: float = 0.5
        ...     def apply_transform(self, sample, index):
        ...         return sample * self.factor**index.epoch
        >>> Scaled(range(10, 20), factor=0.1)[EpochIndex(epoch=1, idx=3)]
        1.3
    """

    dataset: SizedDataset[T]
    """The samples; the same index must always give the same data."""

    @abstractmethod
    def apply_transform(self, sample: T, index: EpochIndex) -> U:
        """Returns the sample as it is in this epoch; must depend on `sample` and `index` alone."""

    def __getitem__(self, index: EpochIndex) -> U:
        return self.apply_transform(self.dataset[index.idx], index)

    def __len__(self) -> int:
        return len(self.dataset)


@dataclass
class IdentityMultiEpochDatasetWrapper(MultiEpochDatasetWrapper[T, T]):
    """The same samples in every epoch.

    Example:
        >>> IdentityMultiEpochDatasetWrapper("abc")[EpochIndex(epoch=7, idx=1)]
        'b'
    """

    def apply_transform(self, sample: T, index: EpochIndex) -> T:
        return sample


class Derived(int):
    """A count that is computed from other fields; `dataclasses.replace` computes it again instead of keeping it."""


class EpochSeeds(Sequence[int]):
    """The seed of each epoch's order, computed on access; epochs count from 0."""

    def __init__(self, seed: int, num_epochs: int) -> None:
        self.seed, self.epochs = seed, range(num_epochs)

    def __len__(self) -> int:
        return len(self.epochs)

    def __getitem__(self, index: Any) -> Any:
        epochs: Any = self.epochs[index]
        several = isinstance(epochs, range)
        return [epoch_seed(self.seed, e) for e in epochs] if several else epoch_seed(self.seed, epochs)


@dataclass
class MultiEpochDatasetResampler(Dataset[T]):
    """A map-style dataset of several epochs, each shuffled by a seed of its own.

    Give at most one of `num_epochs` and `num_samples`, by default one epoch; `num_samples` may cut the last epoch.
    Raises ValueError for both, for a count below 1, and for an empty dataset; TypeError at the first sample of a dataset
    that is not indexed by EpochIndex. Unlike BioNeMo's class, it takes one sample, and few samples can have any order.

    Example:
        >>> letters = IdentityMultiEpochDatasetWrapper("abc")
        >>> list(MultiEpochDatasetResampler(letters, num_epochs=2, shuffle=False))
        ['a', 'b', 'c', 'a', 'b', 'c']
        >>> resampled = MultiEpochDatasetResampler(letters, num_samples=5)
        >>> resampled.num_epochs, sorted(resampled[i] for i in range(3))
        (2, ['a', 'b', 'c'])
    """

    dataset: MultiEpochDataset[T]
    num_epochs: int | None = None
    num_samples: int | None = None
    shuffle: bool = True
    """Whether each epoch is shuffled anew; false: each epoch has the order of the dataset."""
    seed: int = 42

    def __post_init__(self) -> None:
        counts = {"num_epochs": self.num_epochs, "num_samples": self.num_samples}
        limits = {n: c for n, c in counts.items() if c is not None and not isinstance(c, Derived)}
        if len(limits) == 2:
            raise ValueError(
                "Only one of num_epochs and num_samples should be provided. "
                f"They are {self.num_epochs} and {self.num_samples}."
            )
        for name, count in limits.items():
            if count < 1:
                raise ValueError(f"{name} is {count}: expected 1 or more.")
        if not (length := len(self.dataset)):
            raise ValueError("The dataset to resample is empty: expected one sample or more.")
        self.num_samples = limits.get("num_samples", Derived(length * limits.get("num_epochs", 1)))
        self.num_epochs = limits.get("num_epochs", Derived(-(-self.num_samples // length)))
        self.epoch_seeds: Sequence[int] = EpochSeeds(self.seed, self.num_epochs)

    @cached_property
    def _takes_several(self) -> bool:
        kind, arrays = type(self.dataset), (np.ndarray, torch.Tensor, TensorDataset)
        return kind.__module__.startswith("datasets.") or kind.__getitem__ in [a.__getitem__ for a in arrays]

    def epoch_index(self, index: SupportsIndex) -> EpochIndex:
        """Returns the epoch and sample at a position of the stream. Raises IndexError outside [0, len)."""
        position = operator.index(index)
        if not 0 <= position < len(self):
            raise IndexError(f"Index {position} is outside the {self.num_samples} samples.")
        epoch, place = divmod(position, len(self.dataset))
        if self.shuffle:
            place = permute(place, len(self.dataset), self.epoch_seeds[epoch])
        return EpochIndex(epoch, place)

    def __getitem__(self, index: SupportsIndex) -> T:
        try:
            if self._takes_several:
                raise TypeError("it takes an EpochIndex, which is a tuple, for several indices")
            return self.dataset[self.epoch_index(index)]
        except TypeError as error:
            if EpochIndex.__name__ not in str(error):
                raise
            raise TypeError(
                f"{type(self.dataset).__name__} is not indexed by EpochIndex ({error}): wrap it, such as in "
                "IdentityMultiEpochDatasetWrapper(dataset)"
            ) from error

    def __len__(self) -> int:
        assert self.num_samples is not None
        return self.num_samples
