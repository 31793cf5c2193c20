"""The stores that one training set is made of: sources of a mixture, and lengths of phases."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tiryns.runner.data.store.cached import key_of
from tiryns.runner.data.store.sharded import ShardedStore


class NamedStore(NamedTuple):
    """A source as the data of a run of its own, which has one store of training sequences."""

    name: str
    """The source in a mixture, else nothing."""
    data: Any
    """A `PretrainingData` that is prepared."""
    label: str
    """The name of the store's order: that of its source, with the length where it is not that of the run."""

    @property
    def fingerprint(self) -> str:
        """That of the training sequences."""
        return str(self.data.train.fingerprint)


def joined(stores: Sequence[NamedStore]) -> Any:
    """The training sequences of stores one after the other; those of a single one as they are."""
    if len(stores) == 1:
        return stores[0].data.train
    shards: Any = [store.data.train for store in stores]
    return ShardedStore(shards, key_of({"joined": [store.fingerprint for store in stores]}))
