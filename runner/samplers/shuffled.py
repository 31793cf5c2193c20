"""Each epoch in an order of its own, in global batches of one size or in growing ones, or in the dataset's order."""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

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


class Growth:
    """Sizes `first`, `first + by`, ... below `size`, which share `steps` steps evenly, then `size` for ever.

    Each size has as many steps as any other, to one; so ModernBERT grows its batch (arXiv 2412.13663, appendix A).

    Example:
        >>> growth = Growth(size=8, first=2, by=2, steps=6)
        >>> [growth.size_at(step) for step in range(8)], growth.samples_before(7)
        ([2, 2, 4, 4, 6, 6, 8, 8], 32)
    """

    def __init__(self, size: int, first: int, by: int, steps: int) -> None:
        sizes = list(range(first, size, by)) if steps else []
        ends = [-(-place * steps // len(sizes)) for place in range(1, len(sizes) + 1)]
        self._first_steps, self._sizes = [0, *ends], [*sizes, size]
        parts = (
            count * (stop - start)
            for count, (start, stop) in zip(sizes, pairwise(self._first_steps), strict=True)
        )
        self._first_samples = list(accumulate(parts, initial=0))

    def size_at(self, step: int) -> int:
        """Samples of the global batch of a step, counted from 0."""
        return self._sizes[bisect_right(self._first_steps, step) - 1]

    def samples_before(self, step: int) -> int:
        """Samples of all global batches before that of a step, counted from 0."""
        place = bisect_right(self._first_steps, step) - 1
        return self._first_samples[place] + (step - self._first_steps[place]) * self._sizes[place]

    def steps_within(self, samples: int) -> int:
        """The most global batches that have no more samples together."""
        place = bisect_right(self._first_samples, samples) - 1
        return self._first_steps[place] + (samples - self._first_samples[place]) // self._sizes[place]


_BLOCK = 1 << 20
"""Samples whose lengths are read at once."""


@dataclass(eq=False, repr=False)
class Growing(Shuffled):
    """The order of `Shuffled` in batches that grow from `warmup_from` samples to `global_batch_size`.

    The warm-up takes a number of steps or, below 1, a share of the run's; or `warmup_tokens`, which the mean length of
    all samples turns into steps. Sizes are `warmup_by` apart and share its steps evenly (see `Growth`).

    Example:
        >>> warmup = dict(warmup_from=1, warmup_steps=3, warmup_tokens=None, warmup_by=1)
        >>> sampler = Growing(range(9), None, 5, global_batch_size=4, seed=0, **warmup)
        >>> [len(sampler.global_batch(step)) for step in range(5)]
        [1, 2, 3, 4, 4]
    """

    warmup_from: int
    warmup_steps: float
    warmup_tokens: float | None
    warmup_by: int

    def __post_init__(self) -> None:
        super().__post_init__()
        first, steps, size = self.warmup_from, self.warmup_steps, self.global_batch_size
        if not 1 <= first < size:
            raise ValueError(
                f"warmup_from is {first}: expected 1 or more, and less than global_batch_size, {size}."
            )
        if self.warmup_by < 1:
            raise ValueError(f"warmup_by is {self.warmup_by}: expected 1 or more.")
        if steps >= 1 and steps != int(steps):
            raise ValueError(f"warmup_steps is {steps}: expected whole steps, or a share of the run below 1.")

    def size_at(self, step: int) -> int:
        """Samples of a whole global batch, counted from 0; the last one of the run may have fewer."""
        return self._growth.size_at(step)

    def samples_before(self, step: int) -> int:
        """Samples of all global batches before that of a step, counted from 0."""
        return self._growth.samples_before(step)

    def steps_within(self, samples: int) -> int:
        """The most global batches that have no more samples together."""
        return self._growth.steps_within(samples)

    def settled(self) -> dict[str, Any]:
        """The settings with which a sampler of another length has the same warm-up."""
        return {"warmup_steps": self._steps, "warmup_tokens": None}

    def fingerprint(self) -> dict[str, Any]:
        """The settings that the order depends on."""
        return {**super().fingerprint(), "batch_warmup": [self.warmup_from, self.warmup_by, self._steps]}

    @cached_property
    def _growth(self) -> Growth:
        return Growth(self.global_batch_size, self.warmup_from, self.warmup_by, self._steps)

    @cached_property
    def _steps(self) -> int:
        """Steps of the warm-up."""
        size, steps = self.global_batch_size, self.warmup_steps
        sizes = range(self.warmup_from, size, self.warmup_by)
        mean_size = sum(sizes) / len(sizes)
        if self.warmup_tokens is not None:
            return round(self.warmup_tokens / self._mean_length() / mean_size)
        if steps >= 1 or not steps:
            return int(steps)
        if self.num_batches is not None:
            return int(steps * self.num_batches + 1e-9)
        return int(self.num_samples() / (mean_size + size * (1 - steps) / steps) + 1e-9)

    def _mean_length(self) -> float:
        """Tokens of a sample on average."""
        count, total = len(self.dataset), getattr(self.dataset, "num_tokens", None)
        if total is None:
            blocks = (np.arange(start, min(start + _BLOCK, count)) for start in range(0, count, _BLOCK))
            total = sum(int(self.dataset.lengths(block).sum(dtype=np.int64)) for block in blocks)
        return float(total / count)
