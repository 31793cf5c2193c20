"""Each epoch in an order of its own."""

import numpy as np

from iolaus.runner.order.permutation import epoch_seed, permute_block
from iolaus.runner.samplers.base import SeamlessSampler


class Shuffled(SeamlessSampler):
    """Every epoch each sample once, in an order keyed by (seed, epoch): that of `MultiEpochDatasetResampler`.

    No table of the epoch is made, so any batch of any epoch is there at once, and memory is that of one
    batch.
    """

    def epoch_order(self, epoch: int, start: int, stop: int) -> np.ndarray:
        """The samples at places [start, stop) of an epoch, int64 [stop - start]."""
        return permute_block(start, stop, len(self.dataset), epoch_seed(self.seed, epoch))
