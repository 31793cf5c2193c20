"""The sampler of one modality a batch for a plain `DataLoader` (see `runner.samplers.split_modality`)."""

import logging
from collections.abc import Iterator, Sequence, Sized
from typing import Any

import numpy as np
import torch
from torch.utils.data import Sampler

from iolaus.runner.loaders.base import group_ranks
from iolaus.runner.order.permutation import epoch_seed
from iolaus.runner.samplers.base import ResumableSampler, check_fingerprint, check_sizes
from iolaus.runner.samplers.modality_batches import ModalityBatches, deal_evenly

log = logging.getLogger("iolaus")

_CHUNK = 1 << 19
"""Examples dealt to the ranks at a time."""


class SplitModalitySampler(ResumableSampler[int], Sampler[int]):
    """This rank's examples of global batches of one modality: the `sampler` of a `DataLoader`.

    The loader's batch size is `global_batch_size` divided by the ranks. Every rank must be made with the same
    arguments but `rank`. A global batch is dealt to the ranks longest example first, each to the rank with the
    fewest tokens so far, equally many to each. `num_repeated` says how many examples of an epoch are repeats that
    fill up the last batch of a modality. The global batches are those of `SplitModality` with the same seed.

    On purpose unlike Prismatic's: its length is what an iterator gives; one modality alone, fewer examples than a batch
    and `drop_last` work; seed 1 of epoch 0 is not seed 0 of epoch 1; and it resumes inside an epoch.

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
        modality_lengths: Sequence[tuple[bool, int]] | np.ndarray,
        global_batch_size: int,
        num_replicas: int | None = None,
        rank: int | None = None,
        seed: int = 0,
        drop_last: bool = False,
        image_patches: int = 576,
    ) -> None:
        """Takes (has an image, text tokens) of each example; an image counts `image_patches` tokens more.

        The ranks are those of torch.distributed where they are not given. Raises ValueError for lengths that
        are not those of the dataset, an empty dataset, a batch below 1 or that the ranks do not divide, and a
        wrong rank.
        """
        check_sizes(global_batch_size, len(dataset))
        present = group_ranks()
        rank = present[0] if rank is None else rank
        num_replicas = present[1] if num_replicas is None else num_replicas
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
        columns = np.asarray(modality_lengths)
        has_image = columns[:, 0] != 0
        lengths = columns[:, 1].astype(np.int64) + has_image * image_patches
        super().__init__()
        self.dataset, self.modality_lengths = dataset, modality_lengths
        self.num_replicas, self.rank, self.seed = num_replicas, rank, seed
        self.global_batch_size, self.drop_last = global_batch_size, drop_last
        self.image_patches = image_patches
        self._batches = ModalityBatches(has_image, lengths, global_batch_size, drop_last)
        self.num_repeated = sum(self._batches.num_repeated)
        self.total_size = sum(self._batches.num_batches) * global_batch_size
        self.num_samples = self.total_size // num_replicas
        self._report()

    @staticmethod
    def reindex_batch(batch_idxs: list[int], idx2lengths: list[int], n_buckets: int) -> list[list[int]]:
        """Deals indices to buckets of equal size: each, in the given order, to the one with the least so far.

        Raises ValueError where the buckets do not divide the batch.

        Example:
            >>> SplitModalitySampler.reindex_batch([4, 3, 2, 5], [0, 0, 20, 22, 91, 18], n_buckets=2)
            [[4, 5], [3, 2]]
        """
        if n_buckets < 1 or len(batch_idxs) % n_buckets:
            raise ValueError(f"{n_buckets} buckets do not divide a batch of {len(batch_idxs)} examples.")
        if not batch_idxs:
            return [[] for _ in range(n_buckets)]
        owners = deal_evenly(np.array([[int(idx2lengths[i]) for i in batch_idxs]]), n_buckets)[:, 0]
        return [
            [index for index, owner in zip(batch_idxs, owners, strict=True) if owner == bucket]
            for bucket in range(n_buckets)
        ]

    def get_modality_and_length_grouped_indices(self, generator: torch.Generator) -> list[int]:
        """An epoch of all ranks, in an order that the generator alone decides; `total_size` indices.

        Each slice of `global_batch_size` has one modality, and the ranks' examples one rank after the other.
        """
        words = self._batches.epoch(int(torch.randint(2**62, (), generator=generator))).words
        dealt = [self._batches.dealt_to_all(some, self.num_replicas).ravel() for some in self._chunks(words)]
        return np.concatenate(dealt).tolist() if dealt else []

    def fingerprint(self) -> dict[str, Any]:
        """What the global batches depend on; the number of ranks is not part of it."""
        kept = ("seed", "global_batch_size", "image_patches", "drop_last")
        known = {"sampler": type(self).__name__, "dataset_length": len(self.dataset)}
        return {**known, **{name: getattr(self, name) for name in kept}}

    def state_dict(self, consumed: int | None = None) -> dict[str, Any]:
        """The epoch, the examples of it this rank has had, and what must agree to go on.

        A loader with workers reads ahead, and what it has read counts as had: `consumed` is how many examples of
        this epoch the rank was trained on.
        """
        position = self.position if consumed is None else consumed
        place = {"epoch": self.epoch, "position": position, "num_replicas": self.num_replicas}
        return {**place, "fingerprint": self.fingerprint()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where `state` was saved, on another number of ranks too if that was between global batches.

        Raises ValueError for a state of another order, and for one inside a batch dealt to other ranks.
        """
        check_fingerprint(state["fingerprint"], self.fingerprint())
        position, num_replicas = state["position"], state["num_replicas"]
        if num_replicas != self.num_replicas:
            if position * num_replicas % self.global_batch_size:
                raise ValueError(
                    f"The saved place is inside a global batch dealt to {num_replicas} ranks, and there are "
                    f"{self.num_replicas}: save between global batches to change the number of ranks."
                )
            position = position * num_replicas // self.num_replicas
        self.epoch = state["epoch"]
        self.go_on_at(position)

    def __len__(self) -> int:
        """Examples this rank gets in an epoch."""
        return self.num_samples

    def items(self, start: int) -> Iterator[int]:
        """This rank's examples of the present epoch, from number `start` on."""
        return self._examples(self._batches.epoch(epoch_seed(self.seed, self.epoch)).words, start)

    def _examples(self, words: np.ndarray, first: int) -> Iterator[int]:
        batch, skipped = divmod(first, self.global_batch_size // self.num_replicas)
        for some in self._chunks(words[batch:]):
            yield from self._batches.dealt(some, self.num_replicas, self.rank)[skipped:].tolist()
            skipped = 0

    def _chunks(self, words: np.ndarray) -> Iterator[np.ndarray]:
        step = max(1, _CHUNK // self.global_batch_size)
        return (words[start : start + step] for start in range(0, len(words), step))

    def _report(self) -> None:
        kinds, counts = ("with images", "without images"), self._batches
        for name, repeated, dropped in zip(kinds, counts.num_repeated, counts.num_dropped, strict=True):
            if repeated:
                log.info("Each epoch repeats %d examples %s to fill up their last batch.", repeated, name)
            if dropped:
                log.info("Each epoch leaves out %d examples %s that fill no batch.", dropped, name)
