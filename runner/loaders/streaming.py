"""Passes over a stream of documents, shuffled in a bounded buffer.

Every process reads the whole stream, but tokenises only the batches that are its own. So batch k is the same with any
number of loader processes, and a pass resumes at any batch without tokenising those before.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.data.batches import keyed_samples
from tiryns.runner.data.micro_batch import FlatSamples
from tiryns.runner.data.read.documents import Source
from tiryns.runner.data.text.chunking import Chunker
from tiryns.runner.data.text.stream import Numbered, ShuffledStream
from tiryns.runner.loaders.passes import WINDOW, Passes
from tiryns.runner.order.keyed import derive_seed
from tiryns.runner.order.packing import pack
from tiryns.runner.order.ranges import ranges


@dataclass(eq=False, kw_only=True)
class StreamedPasses(Passes):
    """Passes over a source of documents; nothing is kept on disk.

    `buffer_size` documents are held back and drawn from; 0 keeps the order. With `num_shards` above 1 document n goes to
    shard n modulo that number, and batches are of one shard each, in turn. Packed rows are made from a window of
    documents, so which rows there are depends on the number of loader processes.

    Raises ValueError for no shard or a negative buffer.
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

    def batches(self, mine: Callable[[int], bool]) -> Iterator[dict[str, Any]]:
        """The batches of this rank in pass `epoch` whose numbers, of packed rows the windows', are `mine`."""
        for number, documents in enumerate(self._windows()):
            turn, rank = divmod(number, self.num_ranks)
            if rank == self.rank and mine(turn):
                yield from self._made(number, documents)

    def settings(self) -> dict[str, Any]:
        """The settings that the order of the stream depends on, by their names in the message about a change."""
        return {
            "source": self.source.fingerprint(),
            "seed": self.seed,
            "documents taken at a time": self.window,
            "shuffle_buffer_size": self.order.buffer_size,
            "num_shards": self.num_shards,
            "ranks": self.num_ranks,
            "tokens of a row": self.row_tokens,
        }

    def _made(self, number: int, documents: list[Numbered]) -> Iterator[dict[str, Any]]:
        """The batches of a window: one, or one for each packed row."""
        numbers, ids, lengths = self._tokenised(documents)
        if not len(lengths):
            if self.can_skip:  # so that later batches keep their numbers
                yield self.filler()
            return
        starts = np.cumsum(lengths, dtype=np.int64) - lengths
        key = derive_seed(self.seed, self.stream, number)
        for rows in self._rows(lengths):
            tokens = ids[ranges(starts[rows], lengths[rows].astype(np.int64))]
            flat = self._flat(numbers[rows], tokens, lengths[rows])
            yield self.collate({**flat, "batch_size": len(lengths), "batch_key": key, "batch_places": rows})

    def filler(self) -> dict[str, Any]:
        """A batch of one token without a target."""
        nothing = np.zeros(1, dtype=np.int64)
        return self.collate({**self._flat(nothing, nothing, nothing.astype(np.int32) + 1), "filler": True})

    def _flat(
        self, numbers: NDArray[np.int64], ids: NDArray[np.int64], lengths: NDArray[np.int32]
    ) -> FlatSamples:
        """Documents of those numbers, with their tokens end to end, as flat samples for a collator."""
        epochs, packed = np.full(len(numbers), self.epoch), self.row_tokens is not None
        flat = keyed_samples(ids, lengths, epochs, numbers, self.seed, self.stream, packed)
        return {**flat, "batch_places": np.arange(len(numbers)), "batch_size": len(numbers)}

    def _rows(self, lengths: NDArray[np.int32]) -> list[NDArray[np.int64]]:
        if self.row_tokens is None:
            return [np.arange(len(lengths))]
        order, bounds = pack(lengths, self.row_tokens)
        return np.split(order, bounds[1:-1])

    def _tokenised(
        self, documents: list[Numbered]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
        """Numbers [D] of the documents that have tokens, these end to end [N], and their lengths [D]."""
        numbers, contents = zip(*documents, strict=True)
        cut = self.chunker.tokens if self.source.tokenized else self.chunker.texts
        ids, lengths = cut(contents)
        if len(lengths) < len(numbers):  # a text without tokens gives no sequence
            numbers = tuple(n for n, content in documents if len(cut([content])[1]))
        return np.array(numbers, dtype=np.int64), ids, lengths

    def _windows(self) -> Iterator[list[Numbered]]:
        """Documents in lists of `window`, the last ones of each shard in shorter lists."""
        waiting: list[list[Numbered]] = [[] for _ in range(self.num_shards)]
        for number, document in enumerate(self.order.epoch(self.epoch)):
            shard = waiting[number % self.num_shards]
            shard.append(document)
            if len(shard) == self.window:
                yield shard.copy()
                shard.clear()
        yield from (shard for shard in waiting if shard)
