"""Batches of similar lengths, in shuffled order."""

from dataclasses import dataclass

import numpy as np

from iolaus.runner.order.keyed import derive_seed
from iolaus.runner.order.permutation import epoch_seed, permute_block
from iolaus.runner.samplers.base import SeamlessSampler
from iolaus.runner.samplers.modality_batches import BATCHES


@dataclass(eq=False, repr=False)
class LengthGrouped(SeamlessSampler):
    """Every epoch each sample once, in batches of similar lengths, which are shuffled.

    The shuffled epoch is cut into pools of `pool_batches` batches; each pool is sorted by length and cut into batches,
    and the batches of all pools are shuffled. The batch between two epochs holds samples of any length.

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
        self._orders: dict[int, np.ndarray] = {}

    def fingerprint(self) -> dict[str, object]:
        """The settings that the order depends on."""
        return {**super().fingerprint(), "pool_batches": self.pool_batches}

    def set_epoch(self, epoch: int) -> None:
        """Chooses the pass, and drops the orders of the one before."""
        if epoch != self.epoch:
            self._orders = {}
        super().set_epoch(epoch)

    def epoch_order(self, epoch: int, start: int, stop: int) -> np.ndarray:
        """The samples at places [start, stop) of an epoch, int64 [stop - start]."""
        if epoch not in self._orders:
            # a batch may hold samples of two epochs
            self._orders = {e: order for e, order in self._orders.items() if e == epoch - 1}
            self._orders[epoch] = self._make_order(epoch)
        return self._orders[epoch][start:stop]

    def _make_order(self, epoch: int) -> np.ndarray:
        """The whole epoch, int64 [samples]: what completes the batch before, whole batches, and the rest."""
        length, size = len(self.dataset), self.global_batch_size
        seed = epoch_seed(self.seed, epoch)
        order = permute_block(0, length, length, seed)
        head = -(epoch - self.first_epoch) * length % size
        count = (length - head) // size
        if count:
            body = order[head : head + count * size]
            num_pools = -(-count // self.pool_batches)
            pools = np.repeat(np.arange(count) * num_pools // count, size)
            lengths = self.dataset.lengths(body).astype(np.int64)
            batches = body[np.argsort(pools << 32 | lengths, kind="stable")].reshape(count, size)
            body[:] = batches[permute_block(0, count, count, derive_seed(seed, BATCHES))].ravel()
        return order
