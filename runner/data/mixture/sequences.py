"""The sequences of several sources as one store."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.data.store.cached import key_of
from tiryns.runner.data.store.sharded import ShardedStore
from tiryns.runner.data.text.named_stores import NamedStore


class MixedSequences(ShardedStore):
    """The stores of sources by name, one after the other in their order; a source may have several."""

    def __init__(self, stores: Sequence[NamedStore]) -> None:
        self.source_names = list(dict.fromkeys(store.name for store in stores))
        prints = [[store.name, store.fingerprint] for store in stores]
        super().__init__([store.data.train for store in stores], key_of({"mixture": prints}))
        self._owners = np.array([self.source_names.index(store.name) for store in stores])

    def sources_of(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The source of each of the sequences [D], by its place among the names."""
        return self._owners[np.searchsorted(self.ends, indices, side="right")]
