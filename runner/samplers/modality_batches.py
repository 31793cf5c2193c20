"""Batches of one modality each, for a whole epoch at a time, and how they are dealt to ranks.

Letters in shapes: N examples, B examples of a global batch, R ranks, M batches handled at a time.
"""

from typing import NamedTuple

import numpy as np

from iolaus.runner.order.keyed import derive_seed
from iolaus.runner.order.permutation import permute_block

BATCHES = 0x62617463686573
"""Separates this seed from other derived ones ("batches" in ASCII)."""

INDEX = (1 << 32) - 1
"""The bits of the index in a word."""


class Epoch(NamedTuple):
    """The batches of an epoch: words int64 [M, B], and how many of each row are no repeats, int64 [M].

    Example:
        >>> batches = ModalityBatches(np.array([True, True, False]), np.array([9, 5, 3]), size=2, drop_last=False)
        >>> words, sizes = batches.epoch(seed=0)
        >>> (words & INDEX).tolist(), sizes.tolist()
        ([[0, 1], [2, 2]], [2, 1])
    """

    words: np.ndarray
    sizes: np.ndarray


class ModalityBatches:
    """Cuts each modality's examples, shuffled, into batches; the batches are shuffled, with the longest first.

    The batch with the longest example comes first, so that running out of memory shows at the first step. A modality's
    last batch is filled up from the start of its order, or left out with `drop_last`.

    An example is a word, (longest length - length) above and index below, so that sorting words puts the longest first.

    Example:
        >>> batches = ModalityBatches(np.array([True, True, False]), np.array([9, 5, 3]), size=2, drop_last=True)
        >>> batches.num_batches, batches.num_dropped
        ([1, 0], [0, 1])
    """

    def __init__(self, has_image: np.ndarray, lengths: np.ndarray, size: int, drop_last: bool) -> None:
        """Takes bool [N] and tokens int64 [N]. Raises ValueError if all batches would be left out."""
        self.longest = int(lengths.max())
        assert self.longest >> 31 == len(lengths) >> 32 == 0
        words = (self.longest - lengths) << 32
        words |= np.arange(len(lengths))
        self.size = size
        self.members = [words[has_image], words[~has_image]]
        counts = [len(members) for members in self.members]
        self.num_batches = [n // size if drop_last else -(-n // size) for n in counts]
        self.num_repeated = [max(0, m * size - n) for n, m in zip(counts, self.num_batches, strict=True)]
        self.num_dropped = [max(0, n - m * size) for n, m in zip(counts, self.num_batches, strict=True)]
        if not sum(self.num_batches):
            raise ValueError(
                f"No batch is left: global_batch_size is {size}, there are {counts[0]} examples with images and "
                f"{counts[1]} without, and drop_last leaves out what does not fill a batch. Lower "
                "global_batch_size or set drop_last=False."
            )

    def epoch(self, seed: int) -> Epoch:
        """The batches in the order of one epoch's seed."""
        words, sizes = [], []
        for number, (members, count) in enumerate(zip(self.members, self.num_batches, strict=True)):
            if count:
                order = members[permute_block(0, len(members), len(members), derive_seed(seed, number))]
                words.append(np.resize(order, (count, self.size)))
                sizes.append(np.full(count, self.size))
                sizes[-1][-1] -= self.num_repeated[number]
        table, real = np.concatenate(words), np.concatenate(sizes)
        order = permute_block(0, len(table), len(table), derive_seed(seed, BATCHES))
        first = int(table.min(axis=1)[order].argmin())
        order[[0, first]] = order[[first, 0]]
        return Epoch(table[order], real[order])

    def dealt(self, words: np.ndarray, num_ranks: int, rank: int) -> np.ndarray:
        """A rank's examples of batches [M, B], one after the other, longest first, int64 [M * B / R]."""
        words = np.sort(words, axis=1)
        owners = deal_evenly(self.longest - (words >> 32), num_ranks)
        indices: np.ndarray = words[np.ascontiguousarray((owners == rank).T)] & INDEX
        return indices

    def dealt_to_all(self, words: np.ndarray, num_ranks: int) -> np.ndarray:
        """The examples of batches [M, B] rank by rank within each batch, each rank's longest first, int64 [M, B]."""
        words = np.sort(words, axis=1)
        owners = deal_evenly(self.longest - (words >> 32), num_ranks).T
        return np.take_along_axis(words, owners.argsort(axis=1, kind="stable"), axis=1) & INDEX


def deal_evenly(lengths: np.ndarray, num_ranks: int) -> np.ndarray:
    """The rank of each example, int64 [B, M], given lengths int64 [M, B] in the order that they are dealt in.

    Each example goes to the rank with the smallest sum so far, of equals to the first; a rank with B / R examples is
    full. One word per rank and batch holds, from the top: the sum, the word's own place in the table, and the number of
    examples, so that the least word of a batch says where it stands.
    """
    num_batches, size = lengths.shape
    if num_ranks == 1:
        return np.zeros((size, num_batches), dtype=np.int64)
    share, full = size // num_ranks, 1 << 62
    count_bits, place_bits = share.bit_length(), (num_ranks * num_batches).bit_length()
    assert int(lengths.max()) * share < full >> (count_bits + place_bits)
    words = (np.arange(num_ranks * num_batches) << count_bits).reshape(num_ranks, num_batches)
    flat = words.reshape(-1)
    amounts = np.left_shift(lengths.T, count_bits + place_bits, order="C") + 1
    places = np.empty_like(amounts)
    least, count = np.empty((2, num_batches), dtype=np.int64)
    is_full = np.empty(num_batches, dtype=bool)
    for place, amount in zip(places, amounts, strict=True):
        np.min(words, axis=0, out=least)
        np.right_shift(least, count_bits, out=place)
        np.bitwise_and(place, (1 << place_bits) - 1, out=place)
        np.add(least, amount, out=least)
        np.bitwise_and(least, (1 << count_bits) - 1, out=count)
        np.equal(count, share, out=is_full)
        np.putmask(least, is_full, full)
        flat[place] = least
    ranks: np.ndarray = places // num_batches
    return ranks
