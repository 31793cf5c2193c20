"""The order of a run without some of its samples, in which no other sample moves."""

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.samplers import GlobalBatchSampler
from tiryns.runner.samplers.base import Fingerprint
from tiryns.runner.samplers.mixed import Reduced

WITHOUT = "without"
"""Entry of a fingerprint with the digest of the samples that are left out."""


class Without(Reduced):
    """The global batches of `sampler`, in which some samples count for nothing, or have a substitute.

    Samples keep their places, and so do their masks, their dropout and the cut into micro-batches. `substitutes` [D] are
    what takes the place of the samples `left_out` [D], ascending; None gives these weight 0.

    Example:
        >>> from tiryns.runner.samplers import Sequential
        >>> sampler = Sequential(range(4), num_epochs=1, num_batches=None, global_batch_size=2, seed=0)
        >>> left_out = np.array([1])
        >>> dropped = Without(sampler, left_out, None, "digest")
        >>> batch = dropped.global_batch(0)
        >>> batch[:, 1].tolist(), dropped.is_trained(batch).tolist()
        ([0, 1], [True, False])
        >>> Without(sampler, left_out, np.array([2]), "digest").global_batch(0)[:, 1].tolist()
        [0, 2]
    """

    def __init__(
        self,
        sampler: GlobalBatchSampler,
        left_out: NDArray[np.int64],
        substitutes: NDArray[np.int64] | None,
        digest: str,
    ) -> None:
        super().__init__(sampler)
        self.left_out, self.substitutes, self.digest = left_out, substitutes, digest

    def global_batch(self, step: int) -> NDArray[np.int64]:
        """Global batch of `step` as rows (epoch, index), int64 [B, 2]. Raises IndexError outside [0, len)."""
        samples = self.sampler.global_batch(step)
        if self.substitutes is not None:
            found = np.isin(samples[:, 1], self.left_out)
            samples[found, 1] = self.substitutes[np.searchsorted(self.left_out, samples[found, 1])]
        return samples

    def is_trained(self, samples: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which samples [B, 2] of a global batch count."""
        return np.isin(samples[:, 1], self.left_out, invert=True)

    def fingerprint(self) -> Fingerprint:
        """The settings that the order depends on."""
        return {**self.sampler.fingerprint(), WITHOUT: self.digest}
