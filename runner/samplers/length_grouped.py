"""Batches of similar lengths, in shuffled order."""

from dataclasses import dataclass

import numpy as np

from tiryns.runner.order.keyed import derive_seed
from tiryns.runner.order.permutation import epoch_seed, permute, permute_block
from tiryns.runner.samplers.base import SeamlessSampler
from tiryns.runner.samplers.modality_batches import BATCHES

_KEPT = 1 << 22
"""Samples of sorted pools that are kept: of a small dataset each pool is sorted once."""


@dataclass(eq=False, repr=False)
class LengthGrouped(SeamlessSampler):
    """Every epoch each sample once, in batches of similar lengths, which are shuffled.

    The shuffled epoch is cut into pools of `pool_batches` batches; each pool is sorted by length and cut into batches,
    and the batches of all pools are shuffled. The batch between two epochs holds samples of any length. Only the pools
    that batches come from are made: no table of the epoch, so memory and time do not grow with the dataset.

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
        self._pools: dict[tuple[int, int], np.ndarray] = {}

    def fingerprint(self) -> dict[str, object]:
        """The settings that the order depends on."""
        return {**super().fingerprint(), "pool_batches": self.pool_batches}

    def set_epoch(self, epoch: int) -> None:
        """Chooses the pass, and drops the pools of the one before."""
        if epoch != self.epoch:
            self._pools = {}
        super().set_epoch(epoch)

    def epoch_order(self, epoch: int, start: int, stop: int) -> np.ndarray:
        """The samples at places [start, stop) of an epoch, int64 [stop - start].

        An epoch is what completes the batch before, whole batches, and the rest.
        """
        size = self.global_batch_size
        head = self._head(epoch)
        end = head + self._num_whole(epoch) * size
        parts = [self._shuffled(epoch, start, min(stop, head))]
        place = max(start, head)
        while place < min(stop, end):
            number, first = divmod(place - head, size)
            batch = self._batch(epoch, number)[first : first + min(stop, end) - place]
            parts.append(batch)
            place += len(batch)
        return np.concatenate([*parts, self._shuffled(epoch, max(start, end), stop)])

    def _head(self, epoch: int) -> int:
        """Samples that complete the batch that began in the epoch before."""
        return -(epoch - self.first_epoch) * len(self.dataset) % self.global_batch_size

    def _num_whole(self, epoch: int) -> int:
        """Batches that lie within an epoch."""
        return max(0, len(self.dataset) - self._head(epoch)) // self.global_batch_size

    def _shuffled(self, epoch: int, start: int, stop: int) -> np.ndarray:
        """Places [start, stop) of the shuffled epoch before it is sorted; none if they are no range."""
        return permute_block(start, max(start, stop), len(self.dataset), epoch_seed(self.seed, epoch))

    def _batch(self, epoch: int, number: int) -> np.ndarray:
        """Whole batch `number` of an epoch, int64 [B]: one of a pool, as the shuffled batches come."""
        count = self._num_whole(epoch)
        drawn = permute(number, count, derive_seed(epoch_seed(self.seed, epoch), BATCHES))
        num_pools = -(-count // self.pool_batches)
        pool = drawn * num_pools // count
        first, stop = (-(-bound * count // num_pools) for bound in (pool, pool + 1))
        if (epoch, pool) not in self._pools:
            while self._pools and (len(self._pools) + 1) * self.pool_batches * self.global_batch_size > _KEPT:
                del self._pools[next(iter(self._pools))]
            self._pools[epoch, pool] = self._make_pool(epoch, first, stop)
        place = (drawn - first) * self.global_batch_size
        return self._pools[epoch, pool][place : place + self.global_batch_size]

    def _make_pool(self, epoch: int, first: int, stop: int) -> np.ndarray:
        """Batches [first, stop) of the shuffled epoch, sorted by length, int64 [samples]."""
        head, size = self._head(epoch), self.global_batch_size
        pool = self._shuffled(epoch, head + first * size, head + stop * size)
        sorted_pool: np.ndarray = pool[np.argsort(self.dataset.lengths(pool), kind="stable")]
        return sorted_pool
