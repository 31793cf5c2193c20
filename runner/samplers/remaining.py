"""The global batches of a sampler that remain where some are left out."""

from typing import Any

import numpy as np

from tiryns.runner.order.skipping import Pairs, merged, number_of
from tiryns.runner.samplers.base import GlobalBatchSampler, ResumableSampler

SKIPPED = "skip_batches"
"""Entry of a fingerprint with the global batches that are left out; a sampler that leaves none out has none."""


def whole_order(sampler: GlobalBatchSampler) -> GlobalBatchSampler:
    """The order that nothing is left out of."""
    while isinstance(sampler, Remaining):
        sampler = sampler.sampler
    return sampler


class Remaining(GlobalBatchSampler):
    """Step k is the k-th global batch of `sampler` outside `pairs`; the run has `num_batches` steps.

    Example:
        >>> from tiryns.runner.samplers import Sequential
        >>> sampler = Sequential(range(9), num_epochs=None, num_batches=9, global_batch_size=1, seed=0)
        >>> [batch[0][1] for batch in Remaining(sampler, [[2, 4]], num_batches=4)]
        [0, 4, 5, 6]
    """

    num_batches: int

    def __init__(self, sampler: GlobalBatchSampler, pairs: Pairs, num_batches: int) -> None:
        ResumableSampler.__init__(self)
        self.sampler, self.pairs = sampler, merged(pairs)
        self.num_batches, self.num_epochs = num_batches, None
        self.dataset, self.seed = sampler.dataset, sampler.seed
        self.global_batch_size = sampler.global_batch_size

    def global_batch(self, step: int) -> np.ndarray:
        """Global batch of `step` as rows (epoch, index), int64 [B, 2]. Raises IndexError outside [0, len)."""
        self.check_step(step)
        return self.sampler.global_batch(self.batch_number(step))

    def batch_number(self, step: int) -> int:
        """The number of the global batch of a step in the order that nothing is left out of, both counted from 0."""
        return number_of(step + 1, self.pairs) - 1

    def samples_before(self, step: int) -> int:
        """Samples of all global batches before that of a step, those that are left out included."""
        return self.sampler.samples_before(number_of(step, self.pairs))

    def __len__(self) -> int:
        return self.num_batches

    def fingerprint(self) -> dict[str, Any]:
        """The settings that the order depends on."""
        return {**self.sampler.fingerprint(), SKIPPED: self.pairs}
