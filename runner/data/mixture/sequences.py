"""The sequences of several sources as one store."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.data.store.cached import key_of
from tiryns.runner.data.store.reader import TokenStore
from tiryns.runner.data.store.sharded import ShardedStore


class MixedSequences(ShardedStore):
    """The stores of sources by name, one after the other in their order; `names` may have a source several times."""

    def __init__(self, names: Sequence[str], stores: Sequence[TokenStore | ShardedStore]) -> None:
        self.source_names = list(dict.fromkeys(names))
        prints = [[name, store.fingerprint] for name, store in zip(names, stores, strict=True)]
        shards: Any = list(stores)  # sharded ones are read as others are
        super().__init__(shards, key_of({"mixture": prints}))
        self._owners = np.array([self.source_names.index(name) for name in names])

    def sources_of(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The source of each of the sequences [D], by its place among the names."""
        return self._owners[np.searchsorted(self.ends, indices, side="right")]
