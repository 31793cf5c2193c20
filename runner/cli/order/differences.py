"""Where the data of two runs differs, and how much of it they share."""

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.cli.order.opened import SampleOrder


def differences(first: SampleOrder, second: SampleOrder) -> dict[str, Any]:
    """The steps that both trained on in which their samples differ, and how many samples they share.

    Samples of the same training data are told apart by their numbers, those of other data by their tokens.
    """
    same = first.data.fingerprint() == second.data.fingerprint()
    orders = first, second
    seen: tuple[list[NDArray[Any]], list[NDArray[Any]]] = [], []
    keys = [Keys(order, same) for order in orders]
    steps, differ, masks, shared = min(first.trained, second.trained), [], [], 0.0
    for step in range(1, steps + 1):
        ours, theirs = (key.of(step) for key in keys)
        for known, given in zip(seen, (ours, theirs), strict=True):
            known.append(np.unique(given))
        shared += len(np.intersect1d(ours, theirs)) / max(len(ours), len(theirs), 1)
        epochs = [order.samples(step)[:, 0] for order in orders]
        if not (np.array_equal(ours, theirs) and np.array_equal(epochs[0], epochs[1])):
            differ.append(step)
        elif first.noted.get(step) != second.noted.get(step):
            masks.append(step)
    trained = [np.unique(np.concatenate([np.empty(0, keys[0].dtype), *known])) for known in seen]
    return {
        "steps": steps,
        "same_data": same,
        "different_steps": spans(differ),
        "different_masks": spans(masks),
        "shared_of_a_step": shared / max(steps, 1),
        "samples": [len(known) for known in trained],
        "shared_samples": len(np.intersect1d(trained[0], trained[1])),
    }


class Keys:
    """What samples are known by: their indices, or hashes of their tokens."""

    def __init__(self, order: SampleOrder, by_index: bool) -> None:
        self.order, self.by_index = order, by_index
        self.dtype = np.dtype(np.int64 if by_index else np.uint64)
        self._hashes: dict[int, int] = {}

    def of(self, step: int) -> NDArray[Any]:
        """The keys of a step's samples, in their order [B]."""
        indices = self.order.samples(step)[:, 1]
        return indices if self.by_index else np.array([self._hash(i) for i in indices.tolist()], np.uint64)

    def _hash(self, index: int) -> int:
        if index not in self._hashes:
            tokens, _ = self.order.data.train.gather(np.array([index]))
            digest = hashlib.blake2b(tokens.astype("<i8").tobytes(), digest_size=8).digest()
            self._hashes[index] = int.from_bytes(digest, "little")
        return self._hashes[index]


def spans(steps: Iterable[int]) -> list[list[int]]:
    """Ascending steps as first and last of each run of neighbours."""
    found: list[list[int]] = []
    for step in steps:
        if found and found[-1][1] == step - 1:
            found[-1][1] = step
        else:
            found.append([step, step])
    return found
