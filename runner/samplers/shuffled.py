"""Each epoch in an order of its own."""

import numpy as np

from tiryns.runner.order.permutation import epoch_seed, permute_block
from tiryns.runner.samplers.base import SeamlessSampler


class Shuffled(SeamlessSampler):
    """Every epoch each sample once, in an order keyed by (seed, epoch): that of `MultiEpochDatasetResampler`.

    No table of the epoch is made: any batch of any epoch takes the same time, and the memory of one batch.

    Example:
        >>> sampler = Shuffled(range(6), num_epochs=1, num_batches=None, global_batch_size=2, seed=0)
        >>> [sampler.global_batch(step)[:, 1].tolist() for step in range(len(sampler))]
        [[4, 1], [5, 2], [3, 0]]
    """

    def epoch_order(self, epoch: int, start: int, stop: int) -> np.ndarray:
        """The samples at places [start, stop) of an epoch, int64 [stop - start]."""
        return permute_block(start, stop, len(self.dataset), epoch_seed(self.seed, epoch))
