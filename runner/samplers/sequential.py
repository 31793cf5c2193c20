"""Each epoch in the dataset's own order."""

import numpy as np

from tiryns.runner.samplers.base import SeamlessSampler


class Sequential(SeamlessSampler):
    """Samples 0, 1, 2, ... and again from 0: for evaluation, and for data shuffled on disk.

    Example:
        >>> sampler = Sequential(range(5), num_epochs=1, num_batches=None, global_batch_size=2, seed=0)
        >>> [sampler.global_batch(step)[:, 1].tolist() for step in range(len(sampler))]
        [[0, 1], [2, 3], [4]]
    """

    def epoch_order(self, epoch: int, start: int, stop: int) -> np.ndarray:
        """The samples at places [start, stop) of an epoch, int64 [stop - start]."""
        return np.arange(start, stop, dtype=np.int64)
