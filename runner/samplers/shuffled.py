"""Orders of an epoch: shuffled in batches of one size, of growing sizes or by length, and sequential."""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.order.keyed import derive_seed
from tiryns.runner.order.permutation import epoch_seed, permute, permute_block
from tiryns.runner.samplers.base import Fingerprint, SeamlessSampler
from tiryns.runner.samplers.modality_batches import BATCHES


class Shuffled(SeamlessSampler):
    """Serves each sample once per epoch, in an order keyed by (seed, epoch), the order of `MultiEpochDatasetResampler`.

    It builds no table of the epoch: any batch of any epoch takes the same time, and the memory of one batch.

    Example:
        >>> sampler = Shuffled(range(6), num_epochs=1, num_batches=None, global_batch_size=2, seed=0)
        >>> [sampler.global_batch(step)[:, 1].tolist() for step in range(len(sampler))]
        [[4, 1], [5, 2], [3, 0]]
    """

    def epoch_order(self, epoch: int, start: int, stop: int) -> NDArray[np.int64]:
        return permute_block(start, stop, len(self.dataset), epoch_seed(self.seed, epoch))


class Sequential(SeamlessSampler):
    """Samples 0, 1, 2, ... and again from 0: for evaluation, and for data shuffled on disk.

    Example:
        >>> sampler = Sequential(range(5), num_epochs=1, num_batches=None, global_batch_size=2, seed=0)
        >>> [sampler.global_batch(step)[:, 1].tolist() for step in range(len(sampler))]
        [[0, 1], [2, 3], [4]]
    """

    def epoch_order(self, epoch: int, start: int, stop: int) -> NDArray[np.int64]:
        return np.arange(start, stop, dtype=np.int64)


_BLOCK = 1 << 20
"""Samples whose lengths are read at once."""


@dataclass(eq=False, repr=False)
class Growing(Shuffled):
    """The order of `Shuffled` in batches that grow from `warmup_from` samples to `global_batch_size`.

    The warm-up takes `warmup_steps` steps, or a share of the run if below 1. If `warmup_tokens` is given, it replaces the
    steps: the mean length of all samples converts tokens to steps. Sizes are `warmup_by` apart and take equally many
    steps, give or take one, as in ModernBERT (arXiv 2412.13663, appendix A).

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
            problem = f"warmup_from is {first}: expected 1 or more, and less than global_batch_size, {size}."
            raise ValueError(problem)
        if self.warmup_by < 1:
            raise ValueError(f"warmup_by is {self.warmup_by}: expected 1 or more.")
        if steps >= 1 and steps != int(steps):
            raise ValueError(f"warmup_steps is {steps}: expected whole steps, or a share of the run below 1.")

    def size_at(self, step: int) -> int:
        sizes, first_steps, _ = self._growth
        return sizes[bisect_right(first_steps, step) - 1]

    def samples_before(self, step: int) -> int:
        sizes, first_steps, first_samples = self._growth
        place = bisect_right(first_steps, step) - 1
        return first_samples[place] + (step - first_steps[place]) * sizes[place]

    def steps_within(self, samples: int) -> int:
        sizes, first_steps, first_samples = self._growth
        place = bisect_right(first_samples, samples) - 1
        return first_steps[place] + (samples - first_samples[place]) // sizes[place]

    def length_settings(self) -> dict[str, object]:
        return {"warmup_steps": self._steps, "warmup_tokens": None}

    def fingerprint(self) -> Fingerprint:
        return {**super().fingerprint(), "batch_warmup": [self.warmup_from, self.warmup_by, self._steps]}

    @cached_property
    def _growth(self) -> tuple[list[int], list[int], list[int]]:
        """Returns the batch sizes, and for each size the number of steps and of samples before its first batch."""
        sizes, steps = range(self.warmup_from, self.global_batch_size, self.warmup_by), self._steps
        sizes = sizes if steps else range(0)
        first_steps = [0, *(-(-place * steps // len(sizes)) for place in range(1, len(sizes) + 1))]
        samples = (size * (b - a) for size, (a, b) in zip(sizes, pairwise(first_steps), strict=True))
        return [*sizes, self.global_batch_size], first_steps, [*accumulate(samples, initial=0)]

    @cached_property
    def _steps(self) -> int:
        size, steps = self.global_batch_size, self.warmup_steps
        sizes = range(self.warmup_from, size, self.warmup_by)
        mean_size = sum(sizes) / len(sizes)
        if self.warmup_tokens is not None:
            count, total = len(self.dataset), getattr(self.dataset, "num_tokens", None)
            if total is None:
                blocks = (np.arange(start, min(start + _BLOCK, count)) for start in range(0, count, _BLOCK))
                total = sum(int(self.dataset.lengths(block).sum(dtype=np.int64)) for block in blocks)
            return round(self.warmup_tokens / (total / count) / mean_size)
        if steps >= 1 or not steps:
            return int(steps)
        if self.num_batches is not None:
            return int(steps * self.num_batches + 1e-9)
        return int(self.num_samples() / (mean_size + size * (1 - steps) / steps) + 1e-9)


_KEPT = 1 << 22
"""Maximum number of samples in cached sorted pools; with a small dataset each pool is sorted only once."""


@dataclass(eq=False, repr=False)
class LengthGrouped(SeamlessSampler):
    """Serves each sample once per epoch, in shuffled batches of similar lengths.

    The shuffled epoch is cut into pools of `pool_batches` batches; each pool is sorted by length and cut into batches,
    and the batches of all pools are shuffled. The batch between two epochs holds samples of any length. A pool is built
    only when a batch of it is requested, so memory and time do not grow with the dataset.

    Example:
        >>> class Texts(list):
        ...     lengths = lambda self, indices: np.array([len(self[i]) for i in indices], dtype=np.int32)
        >>> texts = Texts(["a", "bbbb", "c", "dddd"])
        >>> sampler = LengthGrouped(texts, 1, None, global_batch_size=2, seed=0, pool_batches=2)
        >>> [sorted(texts[i] for i in sampler.global_batch(step)[:, 1]) for step in range(len(sampler))]
        [['bbbb', 'dddd'], ['a', 'c']]
    """

    pool_batches: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pool_batches < 1:
            raise ValueError(f"pool_batches is {self.pool_batches}: expected 1 or more (1 groups nothing).")
        self._pools: dict[tuple[int, int], NDArray[np.int64]] = {}

    def fingerprint(self) -> Fingerprint:
        return {**super().fingerprint(), "pool_batches": self.pool_batches}

    def epoch_order(self, epoch: int, start: int, stop: int) -> NDArray[np.int64]:
        """Returns the samples at positions [start, stop) of an epoch, int64 [stop - start].

        An epoch has first the samples that complete the previous epoch's last batch, then whole batches, then the rest.
        """
        size = self.global_batch_size
        head = self._head(epoch)
        end = head + self._num_whole(epoch) * size
        parts = [self._shuffled_places(epoch, start, min(stop, head))]
        place = max(start, head)
        while place < min(stop, end):
            number, first = divmod(place - head, size)
            batch = self._batch(epoch, number)[first : first + min(stop, end) - place]
            parts.append(batch)
            place += len(batch)
        return np.concatenate([*parts, self._shuffled_places(epoch, max(start, end), stop)])

    def _head(self, epoch: int) -> int:
        """Returns the number of samples that complete the batch that began in the previous epoch."""
        return -(epoch - self.first_epoch) * len(self.dataset) % self.global_batch_size

    def _num_whole(self, epoch: int) -> int:
        return max(0, len(self.dataset) - self._head(epoch)) // self.global_batch_size

    def _shuffled_places(self, epoch: int, start: int, stop: int) -> NDArray[np.int64]:
        """Returns samples [start, stop) of the shuffled epoch before sorting; empty if stop is below start."""
        return permute_block(start, max(start, stop), len(self.dataset), epoch_seed(self.seed, epoch))

    def _batch(self, epoch: int, number: int) -> NDArray[np.int64]:
        """Returns whole batch `number` of an epoch, int64 [B]: a batch of one pool, in shuffled order."""
        count = self._num_whole(epoch)
        batch_index = permute(number, count, derive_seed(epoch_seed(self.seed, epoch), BATCHES))
        num_pools = -(-count // self.pool_batches)
        pool = batch_index * num_pools // count
        first, stop = (-(-bound * count // num_pools) for bound in (pool, pool + 1))
        head, size = self._head(epoch), self.global_batch_size
        if (epoch, pool) not in self._pools:
            while self._pools and (len(self._pools) + 1) * self.pool_batches * size > _KEPT:
                del self._pools[next(iter(self._pools))]
            samples = self._shuffled_places(epoch, head + first * size, head + stop * size)
            self._pools[epoch, pool] = samples[np.argsort(self.dataset.lengths(samples), kind="stable")]
        place = (batch_index - first) * size
        return self._pools[epoch, pool][place : place + size]
