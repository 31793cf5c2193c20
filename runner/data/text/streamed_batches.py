"""Global batches of a stream: a rank's share is tokenised, cut and collated, as a function of the batch's number."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import IterableDataset, get_worker_info

from iolaus.runner.data.batches import (
    MASK_STREAM,
    keyed_samples,
    share_of,
)
from iolaus.runner.data.handover import serialize_batch
from iolaus.runner.data.micro_batch import Collate, FlatSamples, MicroBatch, Share
from iolaus.runner.data.read.documents import Source
from iolaus.runner.data.text.chunking import Chunker
from iolaus.runner.data.text.stream import ShuffledStream
from iolaus.runner.data.workers import ForkSafeLoader, set_up_worker
from iolaus.runner.order.keyed import derive_seed
from iolaus.runner.order.partition import partition
from iolaus.runner.run.replicas import Replica

CHUNKS = 1 << 40
"""Chunk c of document n is sample n + c times this, so that each has a key of its own."""


class StreamOrder:
    """Global batch k of a stream: `global_batch_size` documents from k times that number on, across passes."""

    def __init__(self, num_batches: int, global_batch_size: int, seed: int, buffer_size: int) -> None:
        self.num_batches, self.global_batch_size = num_batches, global_batch_size
        self.seed, self.buffer_size = seed, buffer_size

    def __len__(self) -> int:
        return self.num_batches

    def fingerprint(self) -> dict[str, Any]:
        """The settings that the order depends on, compared at a resume."""
        order = {
            "seed": self.seed,
            "global_batch_size": self.global_batch_size,
            "buffer_size": self.buffer_size,
        }
        return {"sampler": "a stream", **order}


@dataclass(eq=False)
class StreamedGlobalBatches(IterableDataset[Share]):
    """This rank's shares of global batches `start` and on.

    They come from the loader processes in turn, each of which reads all documents and tokenises those of its batches.
    """

    start = 0
    source: Source
    chunker: Chunker
    order: Any
    collator: Collate
    seed: int
    rank: int
    num_ranks: int
    micro_batch_tokens: int | None
    micro_batch_size: int | None
    packed: bool

    def __post_init__(self) -> None:
        self.stream = ShuffledStream(self.source, self.order.buffer_size, self.order.seed)

    def __iter__(self) -> Iterator[Share]:
        worker = get_worker_info()
        number, count = (worker.id, worker.num_workers) if worker else (0, 1)
        size, documents = self.order.global_batch_size, self.stream.endless()
        for step in range(len(self.order)):
            batch = list(islice(documents, size))
            if step >= self.start and (step - self.start) % count == number:
                yield self.share(step, batch)

    def share(self, step: int, documents: list[tuple[int, int, Any]]) -> Share:
        """This rank's share of global batch `step`, whose documents come with pass and number."""
        places = np.arange(self.rank, len(documents), self.num_ranks)
        ids, lengths, owners, chunks = self._tokenised([documents[place][2] for place in places])
        epochs, numbers = (
            np.array([documents[places[owner]][i] for owner in owners], dtype=np.int64) for i in (0, 1)
        )
        starts = np.cumsum(lengths, dtype=np.int64) - lengths
        cut = partition(lengths, 1, self.micro_batch_tokens, self.micro_batch_size, self.packed)[0]
        whole: FlatSamples = {
            "batch_size": len(documents),
            "batch_key": derive_seed(self.seed, MASK_STREAM, step),
        }
        micro_batches = []
        for rows in cut if len(lengths) else []:
            tokens = np.concatenate([ids[starts[row] : starts[row] + lengths[row]] for row in rows])
            indices = numbers[rows] + CHUNKS * chunks[rows]
            flat = self._flat(tokens, lengths[rows], epochs[rows], indices)
            micro_batches.append(self.collator({**flat, **whole, "batch_places": places[owners[rows]]}))
        share = share_of(micro_batches or [self.filler()])
        share["sample_ids"] = torch.from_numpy(np.stack([epochs, numbers], axis=1))
        share["epoch"] = documents[-1][0]
        return share

    def filler(self) -> MicroBatch:
        """A micro-batch with weight 0, for a rank that has none while others have."""
        nothing = np.zeros(1, dtype=np.int64)
        flat = self._flat(nothing, nothing.astype(np.int32) + 1, nothing, nothing)
        return self.collator(
            {**flat, "filler": True, "batch_places": nothing, "batch_size": 1, "batch_key": 0}
        )

    def _flat(
        self,
        ids: NDArray[np.int64],
        lengths: NDArray[np.int32],
        epochs: NDArray[np.int64],
        indices: NDArray[np.int64],
    ) -> FlatSamples:
        return keyed_samples(ids, lengths, epochs, indices, self.seed, MASK_STREAM, self.packed)

    def _tokenised(
        self, documents: list[Any]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """Tokens [N] of all sequences, their lengths [D], the document of each [D], and its place in that [D]."""
        cut = self.chunker.tokens if self.stream.source.tokenized else self.chunker.texts
        made = [cut([document]) for document in documents]
        counts = [len(lengths) for _, lengths in made]
        ids = np.concatenate([tokens for tokens, _ in made]) if made else np.empty(0, np.int64)
        lengths = np.concatenate([found for _, found in made]) if made else np.empty(0, np.int32)
        chunks = np.concatenate([np.arange(number) for number in counts] or [np.empty(0, np.int64)])
        return ids, lengths, np.repeat(np.arange(len(documents)), counts), chunks


class StreamLoader:
    """Shares of global batches with equally many micro-batches on every rank: the missing ones are fillers.

    Its length is that of the whole run, as Lightning expects.
    """

    def __init__(
        self, batches: StreamedGlobalBatches, data: Any, replica: Replica, device: torch.device
    ) -> None:
        self.batches, self.data, self.replica, self.device = batches, data, replica, device
        workers = data.num_workers
        self.loader = ForkSafeLoader(
            batches,
            batch_size=None,
            num_workers=workers,
            pin_memory=device.type == "cuda",
            collate_fn=serialize_batch,
            worker_init_fn=set_up_worker if workers else None,
            prefetch_factor=4 if workers else None,
        )

    def __len__(self) -> int:
        return len(self.batches.order)

    def __iter__(self) -> Iterator[Share]:
        for share in self.loader:
            self.data._epoch = share.pop("epoch")
            missing = self._most(len(share["micro_batches"])) - len(share["micro_batches"])
            for _ in range(missing):
                share["micro_batches"] += share_of([self.batches.filler()])["micro_batches"]
            yield share

    def _most(self, mine: int) -> int:
        if self.replica.size == 1:
            return mine
        most = torch.tensor(mine, device=self.device)
        torch.distributed.all_reduce(most, torch.distributed.ReduceOp.MAX, group=self.replica.group)
        return int(most)
