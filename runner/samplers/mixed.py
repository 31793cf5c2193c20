"""The global batches of several sources in exact shares."""

import zlib
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.order.epochs import SizedSequences
from tiryns.runner.order.keyed import derive_seed
from tiryns.runner.order.mixture import MixedDraws
from tiryns.runner.samplers.base import GlobalBatchSampler, ResumableSampler, SeamlessSampler


class Mixed(GlobalBatchSampler):
    """Draw n takes the source that `MixedDraws` says, and from it the sample that is its turn in the source's own order.

    `sampler` gives the length of the run and the order of each source, under a seed of the source's name. Its dataset is
    that of all sources one after the other, by which samples are numbered; epochs are those of a sample's source.

    Example:
        >>> from tiryns.runner.samplers import Sequential
        >>> sampler = Sequential(range(7), num_epochs=None, num_batches=2, global_batch_size=4, seed=0)
        >>> mixed = Mixed(sampler, {"few": range(2), "many": range(5)}, parts=[3, 1])
        >>> mixed.global_batch(0).tolist(), mixed.global_batch(1).tolist()
        ([[0, 0], [0, 1], [1, 0], [0, 2]], [[1, 1], [2, 0], [2, 1], [0, 3]])
    """

    def __init__(
        self, sampler: SeamlessSampler, sources: Mapping[str, SizedSequences], parts: Sequence[int]
    ) -> None:
        ResumableSampler.__init__(self)
        self.dataset, self.seed = sampler.dataset, sampler.seed
        self.global_batch_size = sampler.global_batch_size
        self.num_epochs, self.num_batches = sampler.num_epochs, sampler.num_batches
        self.names, self.draws = list(sources), MixedDraws(parts)
        self.sampler = sampler
        self.orders = [order_of(sampler, source, name) for name, source in sources.items()]
        sizes = [len(source) for source in sources.values()]
        self.starts = np.cumsum(sizes) - sizes
        assert sum(sizes) == len(self.dataset)
        assert all(sizes)

    def global_batch(self, step: int) -> np.ndarray:
        """Global batch `step` as rows (epoch, index), int64 [B, 2]. Raises IndexError outside [0, len)."""
        self.check_step(step)
        first = self.epoch * self.num_samples() + self.samples_before(step)  # draws go on from pass to pass
        return self.samples(first, first + self.sampler.num_samples_at(step))

    def samples(self, start: int, stop: int) -> np.ndarray:
        """The samples of draws [start, stop) as rows (epoch, index), int64 [stop - start, 2]."""
        sources, counts = self.draws.sources(start, stop), self.draws.counts(start)
        return in_turn(self.orders, self.starts, sources, counts)

    def counts(self, step: int) -> NDArray[np.int64]:
        """How many samples of each source are drawn before a step [S]."""
        return self.draws.counts(min(self.samples_before(step), self.num_samples()))

    def parts_at(self, step: int) -> NDArray[np.int64]:
        """Draws of each source in a period [S]."""
        return self.draws.parts

    def __len__(self) -> int:
        return len(self.sampler)

    def num_samples(self) -> int:
        """Samples of a pass."""
        return self.sampler.num_samples()

    def samples_before(self, step: int) -> int:
        """Samples of all global batches before that of a step, counted from 0."""
        return self.sampler.samples_before(step)

    def steps_within(self, samples: int) -> int:
        """The most global batches that have no more samples together."""
        return self.sampler.steps_within(samples)

    def settled(self) -> dict[str, Any]:
        """Settings that follow from the run's length, for a sampler of another length with the same first batches."""
        return self.sampler.settled()

    def fingerprint(self) -> dict[str, Any]:
        """The settings that the order depends on; `mixture` has each source's draws of how many."""
        period = int(self.draws.parts.sum())
        shares = zip(self.names, self.draws.parts.tolist(), strict=True)
        return self.sampler.fingerprint() | {"mixture": {name: f"{part}/{period}" for name, part in shares}}


def order_of(sampler: SeamlessSampler, source: SizedSequences, name: str) -> SeamlessSampler:
    """The order of one of several sets of samples: that of `sampler` under a seed of the set's name."""
    order = copy(sampler)
    order.dataset, order.seed = source, derive_seed(sampler.seed, zlib.crc32(name.encode()))
    return order


def in_turn(
    orders: Sequence[SeamlessSampler], starts: np.ndarray, sources: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """Draws of `sources` [B] as rows (epoch, index), int64 [B, 2]: each the sample whose turn it is in its source.

    `counts` [S] are the draws of each source before; samples are numbered from its place in `starts` [S].
    """
    drawn = np.empty((len(sources), 2), dtype=np.int64)
    for source in np.unique(sources).tolist():
        places, before = np.flatnonzero(sources == source), int(counts[source])
        own = orders[source].samples(before, before + len(places))
        drawn[places] = own + np.array([0, starts[source]])
    return drawn
