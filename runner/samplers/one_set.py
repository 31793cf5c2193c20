"""Several sets of samples, each global batch of one of them."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from tiryns.runner.order.mixture import MixedDraws
from tiryns.runner.samplers.base import GlobalBatchSampler, ResumableSampler, SeamlessSampler
from tiryns.runner.samplers.mixed import order_of


class OneSet(GlobalBatchSampler):
    """Batch k is of the set that `MixedDraws` says, and has the samples whose turn it is in the set's own order.

    `sampler` gives the length of the run and the order of each set, under a seed of the set's name. Its dataset is that
    of all sets one after the other, by which samples are numbered; epochs are those of a sample's set. Raises ValueError
    for a set that is smaller than a batch, and for batches that grow.

    Example:
        >>> from tiryns.runner.samplers import Sequential
        >>> sampler = Sequential(range(7), num_epochs=None, num_batches=3, global_batch_size=2, seed=0)
        >>> batches = OneSet(sampler, {"few": 2, "many": 5}, parts=[1, 2])
        >>> [batches.global_batch(step)[:, 1].tolist() for step in range(3)]
        [[2, 3], [0, 1], [4, 5]]
    """

    def __init__(self, sampler: SeamlessSampler, sizes: Mapping[str, int], parts: Sequence[int]) -> None:
        ResumableSampler.__init__(self)
        self.dataset, self.seed = sampler.dataset, sampler.seed
        self.global_batch_size = sampler.global_batch_size
        self.num_epochs, self.num_batches = sampler.num_epochs, sampler.num_batches
        self.sampler, self.names, self.draws = sampler, list(sizes), MixedDraws(parts)
        self.orders = [order_of(sampler, cast(Any, range(size)), name) for name, size in sizes.items()]
        self.starts = np.cumsum(list(sizes.values())) - list(sizes.values())
        if small := next((name for name, size in sizes.items() if size < self.global_batch_size), None):
            raise ValueError(
                f"data.train {small!r} has {sizes[small]} rows, fewer than a global batch of "
                f"{self.global_batch_size}, which is of one set: lower sampler.global_batch_size, or join sets"
            )
        if sampler.size_at(0) != self.global_batch_size:
            raise ValueError(
                "global batches of one set each do not grow: choose sampler=shuffled or sequential"
            )

    def global_batch(self, step: int) -> np.ndarray:
        """Global batch `step` as rows (epoch, index), int64 [B, 2]. Raises IndexError outside [0, len)."""
        self.check_step(step)
        number = self.epoch * len(self) + step  # draws go on from pass to pass
        (place,) = self.draws.sources(number, number + 1).tolist()
        first = int(self.draws.counts(number)[place]) * self.global_batch_size
        samples = self.orders[place].samples(first, first + self.sampler.num_samples_at(step))
        numbered: np.ndarray = samples + np.array([0, self.starts[place]])
        return numbered

    def __len__(self) -> int:
        return len(self.sampler)

    def samples_before(self, step: int) -> int:
        """Samples of all global batches before that of a step, counted from 0."""
        return self.sampler.samples_before(step)

    def settled(self) -> dict[str, Any]:
        """Settings that follow from the run's length, for a sampler of another length with the same first batches."""
        return self.sampler.settled()

    def fingerprint(self) -> dict[str, Any]:
        """The settings that the order depends on; `sets` has each set's share of the batches."""
        period = int(self.draws.parts.sum())
        shares = zip(self.names, self.draws.parts.tolist(), strict=True)
        return self.sampler.fingerprint() | {"sets": {name: f"{part}/{period}" for name, part in shares}}
