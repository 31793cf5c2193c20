"""The sampler of batches that have one modality each, for a plain `DataLoader` (see `runner.samplers.split_modality`)."""

from collections.abc import Iterator, Sequence, Sized
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Sampler

from tiryns.runner import log
from tiryns.runner.data.replicas import find_replica
from tiryns.runner.order.permutation import epoch_seed
from tiryns.runner.samplers.base import Fingerprint, ResumableSampler, check_fingerprint, check_sizes
from tiryns.runner.samplers.modality_batches import ModalityBatches, deal_evenly

_CHUNK = 1 << 19
"""Examples dealt to the ranks at a time."""


class SplitModalitySampler(ResumableSampler[int], Sampler[int]):
    """Yields this rank's examples of global batches that have one modality each: the `sampler` of a `DataLoader`.

    The loader's batch size is `global_batch_size` divided by the ranks; all arguments except `rank` must be the same on
    every rank. The examples of a global batch are dealt longest first, each to the rank with the fewest tokens so far;
    all ranks get equally many. `num_repeated` examples of an epoch are repeats that fill up the last batch of a modality.
    `SplitModality` with the same seed has the same global batches.

    Unlike Prismatic's sampler, it is as long as its iterators. It takes data of a single modality, data smaller than a
    batch, and `drop_last`. Seed 1 in epoch 0 differs from seed 0 in epoch 1. It resumes inside an epoch.

    Example:
        >>> from torch.utils.data import DataLoader
        >>> lengths = [(True, 20), (True, 90), (True, 21), (True, 22), (False, 7), (False, 8)]
        >>> sampler = SplitModalitySampler(range(6), lengths, global_batch_size=2, num_replicas=1, rank=0, seed=1)
        >>> batches = [batch.tolist() for batch in DataLoader(range(6), batch_size=2, sampler=sampler)]
        >>> [{lengths[index][0] for index in batch} for batch in batches]
        [{True}, {False}, {True}]
        >>> 1 in batches[0], len(sampler)
        (True, 6)
    """

    def __init__(
        self,
        dataset: Sized,
        modality_lengths: Sequence[tuple[bool, int]] | NDArray[np.int64],
        global_batch_size: int,
        num_replicas: int | None = None,
        rank: int | None = None,
        seed: int = 0,
        drop_last: bool = False,
        image_patches: int = 576,
    ) -> None:
        """Takes (has an image, text tokens) of each example as `modality_lengths`; an image adds `image_patches` tokens.

        `num_replicas` and `rank` default to torch.distributed's. Raises ValueError unless there is one pair for each
        example, for an empty dataset, a `global_batch_size` below 1 or indivisible by the ranks, and a wrong rank.
        """
        check_sizes(global_batch_size, len(dataset))
        present = find_replica(None, None)
        num_replicas = present.size if num_replicas is None else num_replicas
        rank = present.rank if rank is None else rank
        if len(modality_lengths) != len(dataset):
            raise ValueError(
                f"modality_lengths has {len(modality_lengths)} entries, but the dataset has {len(dataset)} "
                "examples: expected one for each."
            )
        if not 0 <= rank < num_replicas:
            raise ValueError(f"rank is {rank}: expected one of the {num_replicas} ranks, counted from 0.")
        if global_batch_size % num_replicas:
            raise ValueError(
                f"global_batch_size is {global_batch_size}, which {num_replicas} ranks do not divide: "
                f"set it to a multiple of {num_replicas}."
            )
        super().__init__()
        self.dataset, self.modality_lengths, self.seed = dataset, modality_lengths, seed
        self.global_batch_size, self.num_replicas, self.rank = global_batch_size, num_replicas, rank
        self.drop_last, self.image_patches = drop_last, image_patches
        table = modality_lengths
        widths = table.shape[1:] if isinstance(table, np.ndarray) else {*map(len, table)}
        if {*widths} != {2}:  # triples would be read as pairs of other examples
            wrong = next(entry for entry in table if np.size(entry) != 2)
            raise ValueError(f"modality_lengths must be pairs (has an image, text tokens), not {wrong}.")
        if not isinstance(table, np.ndarray):
            table = np.fromiter(chain.from_iterable(table), dtype=np.int64).reshape(-1, 2)
        has_image = table[:, 0] != 0
        lengths = table[:, 1].astype(np.int64) + has_image * image_patches
        looks = (has_image.__getitem__, lengths.__getitem__)
        self._batches = ModalityBatches(*looks, len(table), global_batch_size, drop_last)
        self.num_repeated = sum(self._batches.num_repeated)
        self.total_size = self._batches.per_epoch * global_batch_size
        self.num_samples = self.total_size // num_replicas
        counts = zip(self._batches.num_repeated, self._batches.num_dropped, strict=True)
        for name, (num_repeated, num_dropped) in zip(("with images", "without images"), counts, strict=True):
            if num_repeated:
                log.info("Each epoch repeats %d examples %s to fill up their last batch.", num_repeated, name)
            if num_dropped:
                log.info("Each epoch leaves out %d examples %s that fill no batch.", num_dropped, name)

    @staticmethod
    def reindex_batch(batch_idxs: list[int], idx2lengths: list[int], n_buckets: int) -> list[list[int]]:
        """Deals indices, in the given order, to equal-sized buckets: each to the bucket with the smallest sum of lengths.

        Raises ValueError if the number of buckets does not divide the batch.

        Example:
            >>> SplitModalitySampler.reindex_batch([4, 3, 2, 5], [0, 0, 20, 22, 91, 18], n_buckets=2)
            [[4, 5], [3, 2]]
        """
        if n_buckets < 1 or len(batch_idxs) % n_buckets:
            raise ValueError(f"{n_buckets} buckets do not divide a batch of {len(batch_idxs)} examples.")
        owners = deal_evenly(np.array([[int(idx2lengths[i]) for i in batch_idxs]]), n_buckets)[:, 0]
        return [np.array(batch_idxs)[owners == bucket].tolist() for bucket in range(n_buckets)]

    def get_modality_and_length_grouped_indices(self, generator: torch.Generator) -> list[int]:
        """Returns the `total_size` indices of an epoch, for all ranks, in an order that depends only on `generator`.

        Each slice of `global_batch_size` has one modality, and lists the examples of rank 0 first, then of rank 1, ...
        """
        seed = int(torch.randint(2**62, (), generator=generator))
        indices: list[int] = []
        for chunk in self._chunks(seed):
            examples, ranks = self._batches.dealt(chunk, self.num_replicas)
            by_rank = ranks.argsort(axis=1, kind="stable")
            indices += np.take_along_axis(examples, by_rank, axis=1).ravel().tolist()
        return indices

    def fingerprint(self) -> Fingerprint:
        """Returns the settings that the global batches depend on; the number of ranks is not one of them."""
        return super().fingerprint() | {"image_patches": self.image_patches, "drop_last": self.drop_last}

    def state_dict(self, consumed: int | None = None) -> dict[str, Any]:
        """Returns epoch, position in the epoch and fingerprint, as plain values.

        The position counts examples read. A loader with workers reads ahead: then `consumed` is the number of examples
        of this epoch that the rank was trained on.
        """
        return {
            "epoch": self.epoch,
            "position": self.position if consumed is None else consumed,
            "num_replicas": self.num_replicas,
            "fingerprint": self.fingerprint(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resumes where `state` was saved; a state between global batches also resumes on another number of ranks.

        Raises ValueError for a state of another order, and for a state inside a batch dealt to another number of ranks.
        """
        check_fingerprint(state["fingerprint"], self.fingerprint())
        position, num_replicas = state["position"], state["num_replicas"]
        if num_replicas != self.num_replicas:
            if position * num_replicas % self.global_batch_size:
                raise ValueError(
                    f"The saved position is inside a global batch dealt to {num_replicas} ranks, and there are "
                    f"{self.num_replicas}: save between global batches to change the number of ranks."
                )
            position = position * num_replicas // self.num_replicas
        self.epoch = state["epoch"]
        self.start_at(position)

    def __len__(self) -> int:
        """Returns the number of examples that this rank gets in an epoch."""
        return self.num_samples

    def items(self, start: int) -> Iterator[int]:
        batch, offset = divmod(start, self.global_batch_size // self.num_replicas)
        for chunk in self._chunks(epoch_seed(self.seed, self.epoch), batch):
            examples, ranks = self._batches.dealt(chunk, self.num_replicas)
            yield from examples[np.ascontiguousarray(ranks == self.rank)][offset:].tolist()
            offset = 0

    def _chunks(self, seed: int, first: int = 0) -> Iterator[NDArray[np.int64]]:
        """Yields global batches from number `first` on, at most `_CHUNK` examples at a time."""
        step, stop = max(1, _CHUNK // self.global_batch_size), self._batches.per_epoch
        for start in range(first, stop, step):
            yield self._batches.take(np.arange(start, min(start + step, stop)), seed)[0]
