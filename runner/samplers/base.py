"""What all samplers share: the stream of samples cut into global batches, and the place in it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from runner.data.multi_epoch import EpochIndex, SizedSequences


class GlobalBatchSampler(ABC):
    """Global batch k as a function of the settings and k alone: any can be asked for, in any order.

    Exactly one of `num_epochs` (may be a fraction) and `num_batches` (epochs without end) is given.
    `position` is the batch that iteration goes on with. It counts batches handed out: a loader that reads
    ahead must set it to what was trained on before `state_dict` is saved.

    Letters in shapes: B sequences of a global batch.
    """

    def __init__(
        self,
        dataset: SizedSequences,
        num_epochs: float | None,
        num_batches: int | None,
        global_batch_size: int,
        seed: int,
    ) -> None:
        """Raises ValueError for an empty dataset, a batch larger than it, and counts below 1."""
        if (num_epochs is None) == (num_batches is None):
            raise ValueError(f"num_epochs is {num_epochs} and num_batches is {num_batches}: set exactly one.")
        for name, count in (("num_epochs", num_epochs), ("num_batches", num_batches)):
            if count is not None and count <= 0:
                raise ValueError(f"{name} is {count}: expected a positive number.")
        check_sizes(global_batch_size, len(dataset))
        check_fills_batch(global_batch_size, len(dataset))
        self.dataset = dataset
        self.num_epochs = num_epochs
        self.num_batches = num_batches
        self.global_batch_size = global_batch_size
        self.seed = seed
        self.position = 0

    @abstractmethod
    def global_batch(self, step: int) -> np.ndarray:
        """Global batch `step` as rows (epoch, index), int64 [B, 2]. Raises IndexError outside [0, len)."""

    @abstractmethod
    def __len__(self) -> int: ...

    def fingerprint(self) -> dict[str, Any]:
        """What the order depends on, to be compared at a resume; a subclass adds its own fields."""
        return {
            "sampler": type(self).__name__,
            "seed": self.seed,
            "global_batch_size": self.global_batch_size,
            "dataset_length": len(self.dataset),
        }

    def state_dict(self) -> dict[str, Any]:
        """The place in the run and the fingerprint, as plain values."""
        return {"position": self.position, "fingerprint": self.fingerprint()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where `state` was saved. Raises ValueError naming what differs for another order."""
        check_fingerprint(state["fingerprint"], self.fingerprint())
        if not 0 <= state["position"] <= len(self):
            raise ValueError(
                f"The saved position is global batch {state['position']}, but this run has {len(self)}: "
                "raise the number of epochs or steps to go on with it."
            )
        self.position = state["position"]

    def check_step(self, step: int) -> None:
        """Raises IndexError unless there is a global batch `step`."""
        if not 0 <= step < len(self):
            raise IndexError(f"Global batch {step} is outside the {len(self)} of this run.")

    def __getitem__(self, step: int) -> list[EpochIndex]:
        return [EpochIndex(*row) for row in self.global_batch(step).tolist()]

    def __iter__(self) -> Iterator[list[EpochIndex]]:
        """The batches from `position` on; after a complete pass the next one starts at batch 0."""
        if self.position >= len(self):
            self.position = 0
        while self.position < len(self):
            self.position += 1
            yield self[self.position - 1]


class SeamlessSampler(GlobalBatchSampler):
    """Epochs that follow one another without a seam: a batch may end one and begin the next.

    Only the last batch of the run may be smaller; no sample is dropped or repeated within an epoch.
    """

    @abstractmethod
    def epoch_order(self, epoch: int, start: int, stop: int) -> np.ndarray:
        """The samples at places [start, stop) of an epoch, int64 [stop - start]; each has one place."""

    def global_batch(self, step: int) -> np.ndarray:
        """Global batch `step` as rows (epoch, index), int64 [B, 2]. Raises IndexError outside [0, len)."""
        self.check_step(step)
        length = len(self.dataset)
        place = step * self.global_batch_size
        stop = min(place + self.global_batch_size, self._num_samples())
        batch = np.empty((stop - place, 2), dtype=np.int64)
        done = 0
        while place < stop:
            epoch, start = divmod(place, length)
            count = min(stop - place, length - start)
            batch[done : done + count, 0] = epoch
            batch[done : done + count, 1] = self.epoch_order(epoch, start, start + count)
            done, place = done + count, place + count
        return batch

    def __len__(self) -> int:
        return -(-self._num_samples() // self.global_batch_size)

    def _num_samples(self) -> int:
        """Samples of the whole run."""
        if self.num_batches is not None:
            return self.num_batches * self.global_batch_size
        assert self.num_epochs is not None
        return max(1, round(self.num_epochs * len(self.dataset)))


def check_sizes(global_batch_size: int, length: int) -> None:
    """Raises ValueError for an empty dataset and for a global batch below 1."""
    if length == 0:
        raise ValueError("The dataset is empty: expected one sample or more.")
    if global_batch_size < 1:
        raise ValueError(f"global_batch_size is {global_batch_size}: expected 1 or more.")


def check_fills_batch(global_batch_size: int, length: int) -> None:
    """Raises ValueError unless a dataset of `length` samples fills a global batch."""
    if global_batch_size > length:
        raise ValueError(
            f"global_batch_size is {global_batch_size}, but the dataset has {length} samples: "
            f"set it to {length} or less, or add data."
        )


def check_fingerprint(saved: dict[str, Any], present: dict[str, Any]) -> None:
    """Raises ValueError naming each entry in which two fingerprints differ."""
    names = [name for name in {**saved, **present} if saved.get(name) != present.get(name)]
    if names:
        changes = ", ".join(f"{name} was {saved.get(name)!r} and is {present.get(name)!r}" for name in names)
        raise ValueError(f"The saved place belongs to another sample order: {changes}. Set them back.")
