"""The base classes of samplers: samples of epochs, global batches by number, iteration, and resuming."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sized
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Fingerprint = dict[str, Any]
"""The settings that an order depends on, as plain values, compared at a resume."""


class EpochIndex(NamedTuple):
    """Sample `idx` of the dataset as it is in `epoch`: transforms may depend on both.

    Example:
        >>> EpochIndex(epoch=1, idx=7)
        EpochIndex(epoch=1, idx=7)
    """

    epoch: int
    idx: int


class SizedSequences(Protocol):
    """What samplers read of a dataset: the number of sequences and the length of each.

    Example:
        >>> class Constant(list):
        ...     lengths = lambda self, indices: np.full(len(indices), 16, np.int32)
        >>> dataset: SizedSequences = Constant("abc")
    """

    def __len__(self) -> int: ...

    def lengths(self, indices: NDArray[np.int64], /) -> NDArray[np.int32]:
        """Returns the tokens of each sample, int32 [D], given indices int64 [D]."""
        ...


PROVISIONAL = 1 << 40
"""Number of steps of an order whose length is not known yet; also the maximum that a budget is converted to."""

T_co = TypeVar("T_co", covariant=True)


class ResumableSampler(ABC, Generic[T_co]):
    """A sampler for a DataLoader: every `iter()` begins at the start, except for the first one after `start_at`.

    `position` counts the items of the latest iterator. A subclass has a `dataset`, `global_batch_size` and `seed`.

    Example:
        >>> class Countdown(ResumableSampler[int]):
        ...     __len__ = lambda self: 3
        ...     items = lambda self, start: iter([3, 2, 1][start:])
        >>> sampler = Countdown()
        >>> sampler.start_at(1)
        >>> list(sampler), list(sampler)
        ([2, 1], [3, 2, 1])
    """

    dataset: Sized
    global_batch_size: int
    seed: int

    def __init__(self) -> None:
        self.epoch = 0
        self.position = 0
        self._start = 0
        self._latest = 0

    @abstractmethod
    def items(self, start: int) -> Iterator[T_co]:
        """Returns the items of a pass of the present epoch, from number `start` on."""

    @abstractmethod
    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[T_co]:
        start = self._start if self._start < len(self) else 0
        self.position, self._start, self._latest = start, 0, self._latest + 1
        return self._count(self.items(start), self._latest)

    def _count(self, items: Iterator[T_co], number: int) -> Iterator[T_co]:
        for item in items:
            if number == self._latest:
                self.position += 1
            yield item

    def start_at(self, position: int) -> None:
        """Makes only the next iterator begin at `position`; if `position` is the end, this iterator begins at 0."""
        self.position = self._start = position

    def fingerprint(self) -> Fingerprint:
        """Returns the settings that the order depends on, compared at a resume; a subclass adds its own."""
        return {
            "sampler": type(self).__name__,
            "seed": self.seed,
            "global_batch_size": self.global_batch_size,
            "dataset_length": len(self.dataset),
        }

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the following iterators; another epoch than the current one resets the position to 0."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.start_at(0)


@dataclass(eq=False, repr=False)
class GlobalBatchSampler(ResumableSampler[list[EpochIndex]]):
    """Global batch k as a function of the settings and k alone: the `batch_sampler` of a `DataLoader`.

    Exactly one of `num_epochs` (may be a fraction) and `num_batches` (epochs without end) is given. A pass is the whole
    run. After `set_epoch(n)` a pass follows n earlier passes, and its epochs count from `first_epoch`. Raises ValueError
    for an empty dataset, a batch larger than the dataset, and counts of 0 or less. B sequences make a global batch.

    Example:
        >>> from torch.utils.data import DataLoader
        >>> from tiryns.runner.loaders.multi_epoch import IdentityMultiEpochDatasetWrapper
        >>> from tiryns.runner.samplers import Sequential
        >>> letters = IdentityMultiEpochDatasetWrapper("abc")
        >>> sampler = Sequential(letters, num_epochs=2, num_batches=None, global_batch_size=2, seed=0)
        >>> list(DataLoader(letters, batch_sampler=sampler))
        [['a', 'b'], ['c', 'a'], ['b', 'c']]
    """

    dataset: SizedSequences
    num_epochs: float | None
    num_batches: int | None
    global_batch_size: int
    seed: int

    def __post_init__(self) -> None:
        super().__init__()
        epochs, batches, length = self.num_epochs, self.num_batches, len(self.dataset)
        if (epochs is None) == (batches is None):
            raise ValueError(f"num_epochs is {epochs} and num_batches is {batches}: set exactly one.")
        for name, count in (("num_epochs", epochs), ("num_batches", batches)):
            if count is not None and count <= 0:
                raise ValueError(f"{name} is {count}: expected a positive number.")
        check_sizes(self.global_batch_size, length)
        if self.global_batch_size > length:
            raise ValueError(
                f"global_batch_size is {self.global_batch_size}, more than the dataset has samples ({length}): "
                f"set sampler.global_batch_size={length} or less (in Python, global_batch_size), or add data."
            )

    @abstractmethod
    def global_batch(self, step: int) -> NDArray[np.int64]:
        """Returns global batch `step` as rows (epoch, index), int64 [B, 2]. Raises IndexError outside [0, len)."""

    def epochs_of_pass(self) -> int:
        """Returns the number of epochs in a pass, rounded up."""
        return 1

    @property
    def first_epoch(self) -> int:
        """The epoch of the first sample of batch 0."""
        return self.epoch * self.epochs_of_pass()

    def samples_before(self, step: int) -> int:
        """Returns the number of samples in all global batches before the batch of `step`, counted from 0."""
        return step * self.global_batch_size

    def epochs_before(self, step: int) -> float:
        """Returns the passes over the dataset before the batch of `step`, counted from 0."""
        epochs = self.samples_before(step) / len(self.dataset)
        return min(epochs, self.num_epochs or epochs)  # the last batch of a run may be smaller

    def batch_number(self, step: int) -> int:
        """Returns the number of a step's global batch in the order that skips no batch, both counted from 0."""
        return step

    def is_trained(self, samples: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns for each sample [B, 2] of a global batch whether it is trained on, bool [B]; else it has weight 0."""
        return np.ones(len(samples), dtype=bool)

    def length_settings(self) -> dict[str, object]:
        """Returns the settings that the run's length decides. With them, a longer run has the same first batches."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Returns epoch, position and fingerprint; the position counts batches read, also those read ahead by workers."""
        return {"epoch": self.epoch, "position": self.position, "fingerprint": self.fingerprint()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resumes where `state` was saved. Raises ValueError for a state of another order, naming the difference."""
        check_fingerprint(state["fingerprint"], self.fingerprint())
        if not 0 <= state["position"] <= len(self):
            raise ValueError(
                f"The saved position is global batch {state['position']}, but this run has {len(self)}: "
                "raise the number of epochs or steps to go on with it."
            )
        self.epoch = state.get("epoch", 0)
        self.start_at(state["position"])

    def check_step(self, step: int) -> None:
        """Raises IndexError unless there is a global batch `step`."""
        if not 0 <= step < len(self):
            raise IndexError(f"Global batch {step} is outside the {len(self)} of this run.")

    def __getitem__(self, step: int) -> list[EpochIndex]:
        return [EpochIndex(*row) for row in self.global_batch(step).tolist()]

    def items(self, start: int) -> Iterator[list[EpochIndex]]:
        return (self[step] for step in range(start, len(self)))


class SeamlessSampler(GlobalBatchSampler):
    """A sampler whose batches may hold the end of one epoch and the beginning of the next.

    Only the last batch of the run may be smaller; no sample is dropped or repeated within an epoch.

    Example:
        >>> from tiryns.runner.samplers import Sequential
        >>> sampler = Sequential(range(3), num_epochs=2, num_batches=None, global_batch_size=2, seed=0)
        >>> [sampler.global_batch(step).tolist() for step in range(3)]
        [[[0, 0], [0, 1]], [[0, 2], [1, 0]], [[1, 1], [1, 2]]]
    """

    @abstractmethod
    def epoch_order(self, epoch: int, start: int, stop: int) -> NDArray[np.int64]:
        """Returns the samples at positions [start, stop) of an epoch, int64 [stop - start]; each has one position."""

    def global_batch(self, step: int) -> NDArray[np.int64]:
        self.check_step(step)
        first = self.first_epoch * len(self.dataset) + self.samples_before(step)
        return self.samples(first, first + self.num_samples_at(step))

    def samples(self, start: int, stop: int) -> NDArray[np.int64]:
        """Returns samples [start, stop) of the concatenated epochs, as rows (epoch, index), int64 [stop - start, 2]."""
        length = len(self.dataset)
        batch = np.empty((stop - start, 2), dtype=np.int64)
        for epoch in range(start // length, -(-stop // length)):
            first, last = max(start - epoch * length, 0), min(stop - epoch * length, length)
            rows = batch[epoch * length + first - start :][: last - first]
            rows[:, 0], rows[:, 1] = epoch, self.epoch_order(epoch, first, last)
        return batch

    def __len__(self) -> int:
        samples = self.num_samples()
        whole = self.steps_within(samples)
        return whole + (self.samples_before(whole) < samples)

    def num_samples_at(self, step: int) -> int:
        """Returns the number of samples in the run's global batch `step`, counted from 0."""
        return min(self.size_at(step), self.num_samples() - self.samples_before(step))

    def size_at(self, step: int) -> int:
        """Returns the size of global batch `step`, counted from 0; the last batch of the run may have fewer samples."""
        return self.global_batch_size

    def steps_within(self, samples: int) -> int:
        """Returns the largest number of first global batches that together have at most `samples` samples."""
        return samples // self.global_batch_size

    def epochs_of_pass(self) -> int:
        return -(-self.num_samples() // len(self.dataset))

    def num_samples(self) -> int:
        """Returns the number of samples in the whole run."""
        if self.num_batches is not None:
            return self.samples_before(self.num_batches)
        assert self.num_epochs is not None
        return max(1, round(self.num_epochs * len(self.dataset)))


def check_sizes(global_batch_size: int, length: int) -> None:
    """Raises ValueError for an empty dataset and for a global batch below 1."""
    if length == 0:
        raise ValueError("The dataset is empty: expected one sample or more.")
    if global_batch_size < 1:
        raise ValueError(f"global_batch_size is {global_batch_size}: expected 1 or more.")


def check_fingerprint(saved: Fingerprint, present: Fingerprint) -> None:
    """Raises ValueError naming each entry in which two fingerprints differ."""
    if changes := differences(saved, present):
        raise ValueError(f"The saved position belongs to another sample order: {changes}. Set them back.")


def differences(saved: Fingerprint, present: Fingerprint) -> str:
    """Names each entry in which two fingerprints differ, with both values; empty if they are equal."""
    names = [name for name in {**saved, **present} if saved.get(name) != present.get(name)]
    return ", ".join(f"{name} was {saved.get(name)!r} and is {present.get(name)!r}" for name in names)
