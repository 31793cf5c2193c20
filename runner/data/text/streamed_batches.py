"""Global batches of a stream: a rank's share is tokenised, cut and collated, as a function of the batch's number."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import IterableDataset, get_worker_info

from tiryns.runner.data.batches import MASK_STREAM, keyed_samples, share_of
from tiryns.runner.data.micro_batch import Collate, MicroBatch, Share
from tiryns.runner.data.read.documents import Source
from tiryns.runner.data.replicas import Replica
from tiryns.runner.data.text.chunking import Chunker
from tiryns.runner.data.text.stream import ShuffledStream
from tiryns.runner.data.workers import StepLoader
from tiryns.runner.order.keyed import derive_seed
from tiryns.runner.order.partition import partition
from tiryns.runner.order.ranges import ranges

CHUNKS = 1 << 40
"""Chunk c of document n is sample n + c times this, so that each has a key of its own."""


@dataclass(eq=False)
class StreamOrder:
    """Global batch k of a stream: `global_batch_size` documents from k times that number on, across passes."""

    num_batches: int
    global_batch_size: int
    seed: int
    buffer_size: int

    def __len__(self) -> int:
        return self.num_batches

    def fingerprint(self) -> dict[str, Any]:
        """The settings that the order depends on, compared at a resume."""
        settings = ("seed", "global_batch_size", "buffer_size")
        return {"sampler": "a stream", **{name: getattr(self, name) for name in settings}}


@dataclass(eq=False)
class StreamedGlobalBatches(IterableDataset[Share]):
    """This rank's shares from global batch `start` on; each loader process reads all documents, tokenises its own."""

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

    def __iter__(self) -> Iterator[Share]:
        worker = get_worker_info()
        number, count = (worker.id, worker.num_workers) if worker else (0, 1)
        documents = ShuffledStream(self.source, self.order.buffer_size, self.order.seed).endless()
        for step in range(len(self.order)):
            batch = list(islice(documents, self.order.global_batch_size))
            if step >= self.start and (step - self.start) % count == number:
                yield self.share(step, batch)

    def share(self, step: int, documents: list[tuple[int, int, Any]]) -> Share:
        """This rank's share of global batch `step`, whose documents come with pass and number."""
        mine = range(self.rank, len(documents), self.num_ranks)
        samples, ids, lengths = self._tokenised([(place, *documents[place]) for place in mine])
        starts = np.cumsum(lengths, dtype=np.int64) - lengths
        cut = partition(lengths, 1, self.micro_batch_tokens, self.micro_batch_size, self.packed)[0]
        batch_key = derive_seed(self.seed, MASK_STREAM, step)
        micro_batches = []
        for rows in cut if len(lengths) else []:
            places, epochs, numbers, chunks = samples[rows].T
            tokens = ids[ranges(starts[rows], lengths[rows].astype(np.int64))]
            indices = numbers + CHUNKS * chunks
            flat = keyed_samples(tokens, lengths[rows], epochs, indices, self.seed, MASK_STREAM, self.packed)
            flat |= {"batch_places": places, "batch_size": len(documents), "batch_key": batch_key}
            flat["progress"] = step / len(self.order)
            micro_batches.append(self.collator(flat))
        share = share_of(micro_batches or [self.filler()])
        share["sample_ids"] = torch.from_numpy(samples[:, 1:3])
        share["epoch"] = documents[-1][0]
        return share

    def filler(self) -> MicroBatch:
        """A micro-batch with weight 0, for a rank that has none while others have."""
        zero = np.zeros(1, dtype=np.int64)
        length = np.ones(1, dtype=np.int32)
        flat = keyed_samples(zero, length, zero, zero, self.seed, MASK_STREAM, self.packed)
        return self.collator({**flat, "filler": True, "batch_places": zero, "batch_size": 1, "batch_key": 0})

    def _tokenised(
        self, documents: list[tuple[int, int, int, Any]]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
        """Sequences of documents that come with place, pass and number.

        Place, pass, number and chunk of each [D, 4]; their tokens end to end [N]; and their lengths [D].
        """
        cut = self.chunker.tokens if self.source.tokenized else self.chunker.texts
        made = [cut([document]) for *_, document in documents]
        samples = [
            (*document[:3], chunk)
            for document, (_, lengths) in zip(documents, made, strict=True)
            for chunk in range(len(lengths))
        ]
        ids = np.concatenate([np.empty(0, np.int64), *(tokens for tokens, _ in made)])
        lengths = np.concatenate([np.empty(0, np.int32), *(lengths for _, lengths in made)])
        return np.array(samples, np.int64).reshape(-1, 4), ids, lengths


class _DocumentLoader(StepLoader):
    """Loads the shares; new loader processes read the documents again from the first on, as every run does."""

    def __init__(self, batches: StreamedGlobalBatches, num_workers: int, **options: Any) -> None:
        super().__init__(batches, num_workers, **options)
        sampler: Any = self.sampler
        sampler.start = batches.start

    def begun_at(self, number: int) -> tuple[Any, int]:
        self.dataset.start = number  # type: ignore[attr-defined]
        return super().begun_at(number)


class StreamLoader:
    """Shares of all global batches of a run; fillers give every rank the same number of micro-batches."""

    def __init__(
        self, batches: StreamedGlobalBatches, data: Any, replica: Replica, device: torch.device
    ) -> None:
        self.batches, self.data, self.replica, self.device = batches, data, replica, device
        self.loader = _DocumentLoader(batches, data.num_workers, pin_memory=device.type == "cuda")

    def __len__(self) -> int:
        return len(self.batches.order)

    def __iter__(self) -> Iterator[Share]:
        for share in self.loader:
            self.data._epoch = share.pop("epoch")
            mine = most = len(share["micro_batches"])
            if self.replica.size > 1:
                count = torch.tensor(mine, device=self.device)
                torch.distributed.all_reduce(count, torch.distributed.ReduceOp.MAX, group=self.replica.group)
                most = int(count)
            for _ in range(most - mine):
                share["micro_batches"] += share_of([self.batches.filler()])["micro_batches"]
            yield share
