"""Passes over tokenised samples for a plain `DataLoader`, with the order, masks and packing of a run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import IterableDataset, get_worker_info

from tiryns.runner.data.batches import GatheredSequences, flat_samples
from tiryns.runner.data.micro_batch import FlatSamples
from tiryns.runner.data.workers import WorkerLoader, replacing
from tiryns.runner.objectives.rows.flat import row_batch
from tiryns.runner.order.partition import partition
from tiryns.runner.samplers import Sequential, Shuffled

WINDOW = 64
"""Batches of documents that are packed into rows together; one row of them may be half empty."""


@dataclass(eq=False, kw_only=True)
class Passes(IterableDataset[dict[str, Any]]):
    """The batches of one pass, number `epoch`, from batch `start` on; a subclass says which of them are this rank's.

    Batch k comes from loader process k modulo their number, so that the order is the same with any number of them.
    A batch has `batch_size` samples of each rank. With `row_tokens` it is one row of whole samples, at most so many
    tokens; `pad_rows` fills it up.
    """

    collator: Any
    batch_size: int
    seed: int
    stream: int
    rank: int
    num_ranks: int
    row_tokens: int | None = None
    pad_rows: bool = False

    epoch = 0
    start = 0
    can_skip = True
    """Whether batches before `start` are skipped for free; otherwise the loader reads and discards them."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        worker = get_worker_info()
        number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        return self.batches(lambda batch: batch >= self.start and (batch - self.start) % workers == number)

    def collate(self, flat: FlatSamples) -> dict[str, Any]:
        """The batch of flat samples."""
        return row_batch(flat, self.collator, self.row_tokens if self.pad_rows else None)

    def batches(self, mine: Callable[[int], bool]) -> Iterator[dict[str, Any]]:
        """The batches of this rank in pass `epoch` whose numbers are `mine`."""
        raise NotImplementedError

    def filler(self) -> dict[str, Any]:
        """A batch with weight 0, for a rank that has none left while others have."""
        raise NotImplementedError


@dataclass(eq=False, kw_only=True)
class StoredPasses(Passes):
    """Passes over samples that can be read in any order; the last batch of a pass may be small."""

    sequences: GatheredSequences
    shuffle: bool

    def __post_init__(self) -> None:
        self.window = self.batch_size * self.num_ranks * (WINDOW if self.row_tokens else 1)
        kind = Shuffled if self.shuffle else Sequential
        self.order = kind(self.sequences, num_epochs=1, num_batches=None, global_batch_size=1, seed=self.seed)
        self.num_windows = -(-len(self.sequences) // self.window)

    def __len__(self) -> int:
        """Batches of a pass. Raises TypeError for packed rows, whose number differs from pass to pass."""
        if self.row_tokens is not None:
            raise TypeError("how many packed rows a pass has shows when it is packed")
        return self.num_windows

    def batches(self, mine: Callable[[int], bool]) -> Iterator[dict[str, Any]]:
        """The batches of this rank in pass `epoch` whose numbers are `mine`."""
        packed, row_numbers = self.row_tokens is not None, count()
        for window in range(self.num_windows):
            if not packed and not mine(window):
                continue
            indices = self.indices(self.epoch, window)
            samples = np.column_stack([np.full(len(indices), self.epoch), indices])
            for rows in self._rows(indices):
                if mine(next(row_numbers) if packed else window):
                    drawn = (self.sequences, window, samples, rows, self.seed, self.stream, packed)
                    yield self.collate(flat_samples(*drawn))

    def indices(self, epoch: int, window: int) -> NDArray[np.int64]:
        """The samples of a batch, or of a window of packed rows, of all ranks."""
        start = window * self.window
        return self.order.epoch_order(epoch, start, min(start + self.window, len(self.sequences)))

    def _rows(self, indices: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """This rank's places in a window of samples, batch by batch."""
        if self.row_tokens is None:
            return [np.arange(self.rank, len(indices), self.num_ranks)]
        lengths = self.sequences.lengths(indices)
        return partition(lengths, self.num_ranks, self.row_tokens, None, packed=True)[self.rank]


class PassLoader(WorkerLoader):
    """A `DataLoader` of which each iteration is the next pass, or the same pass if it `repeats`.

    `epoch` is the present pass, `served` the number of its batches so far, those before a restored position included.
    With several ranks `any_has_more` is called for each batch: ranks without one left get fillers until all have none.
    """

    dataset: Passes

    def __init__(
        self,
        passes: Passes,
        num_workers: int,
        epoch: int = 0,
        start: int = 0,
        repeats: bool = False,
        any_has_more: Callable[[bool], bool] | None = None,
    ) -> None:
        super().__init__(passes, num_workers, pin_memory=torch.cuda.is_available())
        self.following, self.repeats, self.any_has_more = (epoch, start), repeats, any_has_more
        self.epoch, self.served, self.ended = epoch, start, False

    def __iter__(self) -> Any:
        """The next pass; its workers start now, not at its first batch."""
        self.epoch, self.served = self.following
        self.ended = False
        self.following = self.following if self.repeats else (self.epoch + 1, 0)
        return self._counted(replacing(self.begun_at, self.served, self.unit))

    def begun_at(self, number: int) -> tuple[Any, int]:
        """New processes: the batches of this pass, and how many of those come before batch `number`."""
        passes = self.dataset
        passes.epoch, passes.start = self.epoch, number if passes.can_skip else 0
        return super().begun_at(number)[0], number - passes.start

    def place(self, consumed: int) -> tuple[int, int]:
        """Pass and batch to resume at after `consumed` batches of this pass."""
        return (self.epoch + 1, 0) if self.ended and consumed >= self.served else (self.epoch, consumed)

    def _counted(self, batches: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        while True:
            batch = next(batches, None)
            if self.any_has_more is not None and self.any_has_more(batch is not None) and batch is None:
                batch = self.dataset.filler()
            if batch is None:
                break
            self.served += 1
            yield batch
        self.ended = True
