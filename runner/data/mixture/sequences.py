"""The sequences of several sources as one store."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iolaus.runner.data.store.cached import key_of
from iolaus.runner.data.store.reader import TokenStore
from iolaus.runner.data.store.sharded import ShardedStore


class MixedSequences(ShardedStore):
    """The stores of sources by name, one after the other in their order."""

    def __init__(self, stores: Mapping[str, TokenStore | ShardedStore]) -> None:
        self.source_names = list(stores)
        prints = [[name, store.fingerprint] for name, store in stores.items()]
        shards: Any = list(stores.values())  # sharded ones are read as others are
        super().__init__(shards, key_of({"mixture": prints}))

    @property
    def starts(self) -> dict[str, int]:
        """The index of the first sequence of each source."""
        return dict(zip(self.source_names, [0, *self.ends.tolist()], strict=False))

    def sources_of(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The source of each of the sequences [D], by its place among the names."""
        return np.searchsorted(self.ends, indices, side="right")
