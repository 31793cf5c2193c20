"""Global batches of several sets, in exact shares or from one set each, and the batches left after skipping some."""

import zlib
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.order.keyed import derive_seed
from tiryns.runner.order.mixture import MixedDraws
from tiryns.runner.order.timeline import Pairs, merge, number_of
from tiryns.runner.samplers.base import Fingerprint, GlobalBatchSampler, SeamlessSampler, SizedSequences
from tiryns.runner.samplers.shuffled import LengthGrouped

Inner = TypeVar("Inner", bound=GlobalBatchSampler)


class DerivedSampler(GlobalBatchSampler, Generic[Inner]):
    """Global batches derived from another `sampler`, which gives their number and sizes.

    Example:
        >>> from tiryns.runner.samplers import Sequential
        >>> sampler = Sequential(range(9), num_epochs=None, num_batches=9, global_batch_size=1, seed=0)
        >>> len(Mixed(sampler, {"all": range(9)}, parts=[1]))
        9
    """

    leaves_out = False
    """Whether this sampler leaves out samples or batches of `sampler`."""

    def __init__(self, sampler: Inner) -> None:
        super(GlobalBatchSampler, self).__init__()
        self.sampler, self.dataset, self.seed = sampler, sampler.dataset, sampler.seed
        self.global_batch_size = sampler.global_batch_size
        self.num_epochs, self.num_batches = sampler.num_epochs, sampler.num_batches

    def __len__(self) -> int:
        return len(self.sampler)

    def samples_before(self, step: int) -> int:
        return self.sampler.samples_before(step)

    def batch_number(self, step: int) -> int:
        return self.sampler.batch_number(step)

    def length_settings(self) -> dict[str, object]:
        return self.sampler.length_settings()


class _InTurn(DerivedSampler[Inner]):
    """Draws from several sets of samples, each in its own order of `orders`; samples are numbered set after set."""

    def __init__(self, sampler: Inner, orders: Sequence[SeamlessSampler]) -> None:
        super().__init__(sampler)
        self.orders, self.sizes = list(orders), np.array([len(order.dataset) for order in orders], np.int64)
        self.starts = np.cumsum(self.sizes) - self.sizes

    def in_turn(self, sources: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns for each entry of `sources` [B] the next sample of that set, as rows (epoch, index), int64 [B, 2].

        `counts` [S] has the number of earlier draws from each set.
        """
        rows = np.empty((len(sources), 2), dtype=np.int64)
        for source in np.unique(sources).tolist():
            places, before = np.flatnonzero(sources == source), int(counts[source])
            samples = self.orders[source].samples(before, before + len(places))
            rows[places] = samples + np.array([0, self.starts[source]])
        return rows


class _Shared(_InTurn[SeamlessSampler]):
    """Draws from several `sets` in exact shares. Each set has the order of `sampler`, seeded by the set's name."""

    entry: str
    """Name of the fingerprint's entry that has the share of each set, such as `3/4`."""

    def __init__(self, sampler: GlobalBatchSampler, sets: Mapping[str, Any], parts: Sequence[int]) -> None:
        if not isinstance(sampler, SeamlessSampler) or isinstance(sampler, LengthGrouped):
            advice = "sorts all samples together: choose sampler=shuffled or sampler=sequential"
            raise ValueError(f"each set has a separate order, and {type(sampler).__name__} {advice}")
        super().__init__(sampler, [order_of(sampler, one, name) for name, one in sets.items()])
        self.names, self.draws = list(sets), MixedDraws(parts)

    def fingerprint(self) -> Fingerprint:
        parts = self.draws.parts.tolist()
        shares = {name: f"{part}/{sum(parts)}" for name, part in zip(self.names, parts, strict=True)}
        return self.sampler.fingerprint() | {self.entry: shares}


class Mixed(_Shared):
    """`MixedDraws` gives the source of each draw; the draw takes the next sample in the order of that source.

    `sampler` gives the length of the run; its dataset is all sources one after the other. The epoch of a sample counts
    passes over its source.

    Example:
        >>> from tiryns.runner.samplers import Sequential
        >>> sampler = Sequential(range(7), num_epochs=None, num_batches=2, global_batch_size=4, seed=0)
        >>> mixed = Mixed(sampler, {"few": range(2), "many": range(5)}, parts=[3, 1])
        >>> mixed.global_batch(0).tolist(), mixed.global_batch(1).tolist()
        ([[0, 0], [0, 1], [1, 0], [0, 2]], [[1, 1], [2, 0], [2, 1], [0, 3]])
    """

    entry = "mixture"

    def global_batch(self, step: int) -> NDArray[np.int64]:
        self.check_step(step)
        first = self.epoch * self.num_samples() + self.samples_before(step)  # draws go on from pass to pass
        sources = self.draws.sources(first, first + self.sampler.num_samples_at(step))
        return self.in_turn(sources, self.draws.counts(first))

    def counts(self, step: int) -> NDArray[np.int64]:
        """Returns the number of samples drawn from each source before `step`, int64 [S]."""
        return self.draws.counts(min(self.samples_before(step), self.num_samples()))

    def parts_at(self, step: int) -> NDArray[np.int64]:
        """Returns the number of draws from each source in a period, int64 [S]."""
        return self.draws.parts

    def num_samples(self) -> int:
        """Returns the number of samples in a pass."""
        return self.sampler.num_samples()

    def steps_within(self, samples: int) -> int:
        """Returns the largest number of first global batches that together have at most `samples` samples."""
        return self.sampler.steps_within(samples)


def order_of(sampler: SeamlessSampler, source: SizedSequences, name: str) -> SeamlessSampler:
    """Returns a copy of `sampler` for one set of samples, with a seed derived from its seed and the set's `name`."""
    order = copy(sampler)
    order.dataset, order.seed = source, derive_seed(sampler.seed, zlib.crc32(name.encode()))
    return order


class OneSet(_Shared):
    """`MixedDraws` gives the set of each batch; the batch has the next samples in the order of that set.

    Otherwise like `Mixed`. Raises ValueError for a set smaller than a batch, and for batches that grow.

    Example:
        >>> from tiryns.runner.samplers import Sequential
        >>> sampler = Sequential(range(7), num_epochs=None, num_batches=3, global_batch_size=2, seed=0)
        >>> batches = OneSet(sampler, {"few": 2, "many": 5}, parts=[1, 2])
        >>> [batches.global_batch(step)[:, 1].tolist() for step in range(3)]
        [[2, 3], [0, 1], [4, 5]]
    """

    entry = "sets"

    def __init__(self, sampler: GlobalBatchSampler, sizes: Mapping[str, int], parts: Sequence[int]) -> None:
        super().__init__(sampler, {name: range(size) for name, size in sizes.items()}, parts)
        if small := next((name for name, size in sizes.items() if size < self.global_batch_size), None):
            raise ValueError(
                f"data.train {small!r} has {sizes[small]} rows, fewer than a global batch of "
                f"{self.global_batch_size}, all of one set: lower sampler.global_batch_size, or join sets"
            )
        if self.sampler.size_at(0) != self.global_batch_size:
            problem = "with several training sets batches cannot grow: choose sampler=shuffled or sequential"
            raise ValueError(problem)

    def global_batch(self, step: int) -> NDArray[np.int64]:
        self.check_step(step)
        number = self.epoch * len(self) + step  # draws go on from pass to pass
        sources = np.repeat(self.draws.sources(number, number + 1), self.sampler.num_samples_at(step))
        return self.in_turn(sources, self.draws.counts(number) * self.global_batch_size)


SKIPPED = "skip_batches"
"""Entry of a fingerprint with the left-out global batches; the entry is missing if none is left out."""


def whole_order(sampler: GlobalBatchSampler) -> GlobalBatchSampler:
    """Returns the sampler with the complete order: removes all wrappers that leave something out."""
    while isinstance(sampler, DerivedSampler) and sampler.leaves_out:
        sampler = sampler.sampler
    return sampler


class Remaining(DerivedSampler[GlobalBatchSampler]):
    """Step k is the k-th global batch of `sampler` outside `pairs`; the run has `num_batches` steps.

    Example:
        >>> from tiryns.runner.samplers import Sequential
        >>> sampler = Sequential(range(9), num_epochs=None, num_batches=9, global_batch_size=1, seed=0)
        >>> [batch[0][1] for batch in Remaining(sampler, [[2, 4]], num_batches=4)]
        [0, 4, 5, 6]
    """

    leaves_out = True
    num_batches: int

    def __init__(self, sampler: GlobalBatchSampler, pairs: Pairs, num_batches: int) -> None:
        super().__init__(sampler)
        self.pairs, self.num_batches, self.num_epochs = merge(pairs), num_batches, None

    def global_batch(self, step: int) -> NDArray[np.int64]:
        self.check_step(step)
        return self.sampler.global_batch(self.batch_number(step))

    def batch_number(self, step: int) -> int:
        return number_of(step + 1, self.pairs) - 1

    def samples_before(self, step: int) -> int:
        return self.sampler.samples_before(number_of(step, self.pairs))

    def __len__(self) -> int:
        return self.num_batches

    def fingerprint(self) -> Fingerprint:
        return {**self.sampler.fingerprint(), SKIPPED: self.pairs}


class Joined(DerivedSampler[GlobalBatchSampler]):
    """The batches of a run whose parent trained on only the first `count` samples of `step`.

    The next batch begins with the other samples. Steps are counted from 1.

    Example:
        >>> from tiryns.runner.samplers import Sequential
        >>> sampler = Sequential(range(5), num_epochs=2, num_batches=None, global_batch_size=4, seed=0)
        >>> [batch.tolist() for batch in (Joined(sampler, 2, 1).global_batch(step)[:, 1] for step in range(3))]
        [[0, 1, 2, 3], [4], [0, 1, 2, 3, 4]]
    """

    leaves_out = True

    def __init__(self, sampler: GlobalBatchSampler, step: int, count: int) -> None:
        super().__init__(sampler)
        self.step, self.count = step, count

    def global_batch(self, step: int) -> NDArray[np.int64]:
        samples = self.sampler.global_batch(step)
        if step == self.step:
            return np.concatenate([self.sampler.global_batch(step - 1)[self.count :], samples])
        return samples[: self.count] if step + 1 == self.step else samples

    def fingerprint(self) -> Fingerprint:
        return self.sampler.fingerprint()
