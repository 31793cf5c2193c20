"""Passes over tokenised samples for a plain `DataLoader`, with the order, masks and packing of a run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import IterableDataset, get_worker_info

from tiryns.runner.data.batches import GatheredSequences, flat_samples, keyed_samples
from tiryns.runner.data.micro_batch import Batch, FlatSamples
from tiryns.runner.data.read.documents import Source
from tiryns.runner.data.text.chunking import Chunker
from tiryns.runner.data.text.stream import Numbered, ShuffledStream
from tiryns.runner.data.workers import WorkerLoader, replacing
from tiryns.runner.loaders.microbatches import row_batch
from tiryns.runner.order.keyed import derive_seed
from tiryns.runner.order.packing import pack
from tiryns.runner.order.partition import partition
from tiryns.runner.order.ranges import ranges
from tiryns.runner.samplers import Sequential, Shuffled

WINDOW = 64
"""Number of batches whose documents are packed into rows together; one of these rows may be half empty."""


@dataclass(eq=False, kw_only=True)
class Passes(IterableDataset[Batch]):
    """Iterates over the batches of pass number `epoch`, from batch `start` on; a subclass chooses this rank's batches.

    Batch k comes from loader process k modulo the number of processes, so the order does not depend on that number.
    A batch has `batch_size` samples of each rank. With `row_tokens` it is one row of whole samples, with at most
    `row_tokens` tokens; `pad_rows` pads it to this length.
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

    def __iter__(self) -> Iterator[Batch]:
        worker = get_worker_info()
        number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        return self.batches(lambda batch: batch >= self.start and (batch - self.start) % workers == number)

    def collate(self, flat: FlatSamples) -> Batch:
        """Returns the batch of flat samples."""
        return row_batch(flat, self.collator, self.row_tokens if self.pad_rows else None)

    def batches(self, mine: Callable[[int], bool]) -> Iterator[Batch]:
        """Yields the batches of this rank in pass `epoch`; leaves out batches whose number `mine` rejects."""
        raise NotImplementedError

    def filler(self) -> Batch:
        """Returns a batch with weight 0, for a rank that has no batch left while other ranks have one."""
        raise NotImplementedError


@dataclass(eq=False, kw_only=True)
class StoredPasses(Passes):
    """Passes over samples that can be read in any order; the last batch of a pass may be small."""

    sequences: GatheredSequences
    shuffle: bool

    def __post_init__(self) -> None:
        kind = Shuffled if self.shuffle else Sequential
        window = self.batch_size * self.num_ranks * (WINDOW if self.row_tokens else 1)
        self.order = kind(self.sequences, 1, None, min(window, len(self.sequences)), self.seed)
        """The samples of all ranks, by batch or by window of packed rows."""

    def __len__(self) -> int:
        """Returns the number of batches of a pass. Raises TypeError for packed rows, whose number differs by pass."""
        if self.row_tokens is not None:
            raise TypeError("the number of packed rows of a pass is known only after packing")
        return len(self.order)

    def batches(self, mine: Callable[[int], bool]) -> Iterator[Batch]:
        packed, row_numbers = self.row_tokens is not None, count()
        self.order.set_epoch(self.epoch)
        for window in range(len(self.order)):
            if not packed and not mine(window):
                continue
            samples = self.order.global_batch(window)
            batches = [np.arange(self.rank, len(samples), self.num_ranks)]
            if packed:
                lengths = self.sequences.lengths(samples[:, 1])
                batches = partition(lengths, self.num_ranks, self.row_tokens, None, packed=True)[self.rank]
            for rows in batches:
                if mine(next(row_numbers) if packed else window):
                    arguments = (self.sequences, window, samples, rows, self.seed, self.stream, packed)
                    yield self.collate(flat_samples(*arguments))


class PassLoader(WorkerLoader):
    """A `DataLoader` whose iterations are successive passes, or the same pass if it `repeats`.

    `epoch` is the present pass, `following` the next one and its first batch; None as first batch: it has no batch.
    With several ranks `any_has_more` is called for each batch: ranks without batches get fillers until all have none.
    """

    dataset: Passes

    def __init__(
        self,
        passes: Passes,
        num_workers: int,
        epoch: int = 0,
        start: int | None = 0,
        repeats: bool = False,
        any_has_more: Callable[[bool], bool] | None = None,
    ) -> None:
        super().__init__(passes, num_workers, pin_memory=torch.cuda.is_available())
        self.following, self.repeats, self.any_has_more = (epoch, start), repeats, any_has_more
        self.epoch = epoch

    def __iter__(self) -> Any:
        """Returns the next pass; its workers start now, not at its first batch."""
        self.epoch, start = self.following
        self.following = self.following if self.repeats else (self.epoch + 1, 0)
        if start is None:
            return iter(())
        return self._until_all_end(replacing(self.begun_at, start, self.unit))

    def begun_at(self, number: int) -> tuple[Iterator[Any], int]:
        passes = self.dataset
        passes.epoch, passes.start = self.epoch, number if passes.can_skip else 0
        return super().begun_at(number)[0], number - passes.start

    def _until_all_end(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        while True:
            batch = next(batches, None)
            if self.any_has_more is not None and self.any_has_more(batch is not None) and batch is None:
                batch = self.dataset.filler()
            if batch is None:
                return
            yield batch


@dataclass(eq=False, kw_only=True)
class StreamedPasses(Passes):
    """Passes over a source of documents; nothing is kept on disk.

    Documents are drawn from a buffer of `buffer_size`; 0 keeps the order. Document n goes to shard n modulo `num_shards`.
    Each batch has documents of one shard, and the shards take turns. Packed rows are made from a window of documents, so
    the rows depend on the number of loader processes.

    Raises ValueError for fewer than 1 shard or a negative buffer.
    """

    source: Source
    chunker: Chunker
    buffer_size: int
    num_shards: int

    def __post_init__(self) -> None:
        if self.num_shards < 1 or self.buffer_size < 0:
            raise ValueError(
                f"num_shards={self.num_shards} must be at least 1, shuffle_buffer_size={self.buffer_size} 0 or more"
            )
        self.order = ShuffledStream(self.source, self.buffer_size, self.seed)
        self.window = self.batch_size * (WINDOW if self.row_tokens else 1)
        self.can_skip = self.row_tokens is None

    def batches(self, mine: Callable[[int], bool]) -> Iterator[Batch]:
        for number, documents in enumerate(self._windows()):
            turn, rank = divmod(number, self.num_ranks)
            if rank != self.rank or not mine(turn):
                continue
            numbers, contents = zip(*documents, strict=True)
            cut = self.chunker.tokens if self.source.tokenized else self.chunker.texts
            ids, lengths = cut(contents)
            if len(lengths) < len(numbers):  # a text without tokens gives no sequence
                numbers = tuple(n for n, content in documents if len(cut([content])[1]))
            if not len(lengths):
                if self.can_skip:  # so that later batches keep their numbers
                    yield self.filler()
                continue
            batches = [np.arange(len(lengths))]
            if self.row_tokens is not None:
                order, bounds = pack(lengths, self.row_tokens)
                batches = np.split(order, bounds[1:-1])
            starts = np.cumsum(lengths, dtype=np.int64) - lengths
            key, samples = derive_seed(self.seed, self.stream, number), np.array(numbers, dtype=np.int64)
            for rows in batches:
                tokens = ids[ranges(starts[rows], lengths[rows].astype(np.int64))]
                flat = self._flat(samples[rows], tokens, lengths[rows])
                flat |= {"batch_size": len(lengths), "batch_key": key, "batch_places": rows}
                yield self.collate(flat)

    def settings(self) -> dict[str, object]:
        """Returns the settings that the order of the stream depends on, by the names that messages about changes use."""
        return {
            "source": repr(self.source.fingerprint()), "seed": self.seed,
            "documents taken at a time": self.window, "shuffle_buffer_size": self.order.buffer_size,
            "num_shards": self.num_shards, "ranks": self.num_ranks, "tokens of a row": self.row_tokens,
        }  # fmt: skip

    def filler(self) -> Batch:
        """Returns a batch of one token without a target."""
        nothing = np.zeros(1, dtype=np.int64)
        return self.collate({**self._flat(nothing, nothing, nothing.astype(np.int32) + 1), "filler": True})

    def _flat(
        self, numbers: NDArray[np.int64], ids: NDArray[np.int64], lengths: NDArray[np.int32]
    ) -> FlatSamples:
        """Returns the documents of these numbers, with concatenated tokens, as flat samples for a collator."""
        epochs, packed = np.full(len(numbers), self.epoch), self.row_tokens is not None
        flat = keyed_samples(ids, lengths, epochs, numbers, self.seed, self.stream, packed)
        return {**flat, "batch_places": np.arange(len(numbers)), "batch_size": len(numbers)}

    def _windows(self) -> Iterator[list[Numbered]]:
        """Yields lists of `window` documents of one shard; the last list of a shard may be shorter."""
        waiting: list[list[Numbered]] = [[] for _ in range(self.num_shards)]
        for number, document in enumerate(self.order.epoch(self.epoch)):
            shard = waiting[number % self.num_shards]
            shard.append(document)
            if len(shard) == self.window:
                yield shard.copy()
                shard.clear()
        yield from (shard for shard in waiting if shard)
