"""Makes batches of one modality each, on demand, and deals them to ranks.

Letters in shapes: N examples, B examples of a global batch, R ranks, M batches handled at a time.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.order.keyed import derive_seed
from tiryns.runner.order.permutation import permute, permute_many

Look = Callable[[NDArray[np.int64]], NDArray[np.generic]]
"""A function from the indices of examples, int64 [D], to a property of each example, such as its length."""

INDEX = (1 << 32) - 1
"""The bits of the index in a word."""

_LONGEST = (1 << 31) - 1
_FULL = 1 << 62  # more than any sum of lengths
_BLOCK = 1 << 20  # examples looked at together
_LINE = 16  # bytes of the bit map between two counts
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
_SET = np.argsort(1 - _BITS, axis=1, kind="stable")
"""The bits that are set in each byte, ascending, before those that are not."""


def words_of(indices: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Packs each example into a word: high bits (longest possible - length), low bits index; longest sorts first."""
    return (_LONGEST - lengths) << 32 | indices


def lengths_of(words: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the lengths in words."""
    return _LONGEST - (words >> 32)


class Modality(NamedTuple):
    """The examples of one modality, numbered by rising index.

    Example:
        >>> images, texts = scan(lambda i: i == 2, lambda i: 7 + i, num_examples=4, keep=1)
        >>> images.size, texts.size, texts.members(np.arange(3)).tolist()
        (1, 3, [0, 1, 3])
    """

    bits: NDArray[np.uint8]
    """A bit per example of the dataset, uint8 [lines, bytes], shared with the other modality."""
    xor_mask: int
    """255 if zeros in `bits` mark the modality's members, 0 if ones do."""
    before: NDArray[np.uint32]
    """Members before each line, uint32 [lines]."""
    size: int
    longest: list[tuple[int, int]]
    """Words and numbers of the longest members, longest first."""

    def members(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the dataset indices of the members with these `numbers`, int64 [D] for int64 [D]."""
        lines = np.searchsorted(self.before, numbers.astype(np.uint32), side="right") - 1
        bits, rest = self.bits[lines] ^ np.uint8(self.xor_mask), numbers - self.before[lines]
        counts = np.cumsum(np.bitwise_count(bits), axis=1, dtype=np.uint8)
        byte, rows = (counts <= rest[:, None]).sum(axis=1), np.arange(len(numbers))
        bits = bits[rows, byte]
        rest -= counts[rows, byte] - np.bitwise_count(bits)
        indices: NDArray[np.int64] = (lines * _LINE + byte) * 8 + _SET[bits, rest]
        return indices


def scan(has_image: Look, lengths: Look, num_examples: int, keep: int) -> list[Modality]:
    """Returns the modality with images and the one without, each with its `keep` longest; reads each example once.

    Example:
        >>> images, texts = scan(lambda i: i % 3 == 0, lambda i: 10 * i, num_examples=9, keep=1)
        >>> images.members(np.array([2, 0])).tolist(), texts.members(np.array([5])).tolist()
        ([6, 0], [8])
        >>> lengths_of(np.array([word for word, _ in images.longest + texts.longest])).tolist()
        [60, 80]
    """
    assert num_examples >> 32 == 0
    bits = np.zeros((-(-num_examples // (8 * _LINE)), _LINE), np.uint8)
    flat, counts = bits.reshape(-1), [0, 0]
    longest = [np.empty((2, 0), np.int64) for _ in counts]
    for start in range(0, num_examples, _BLOCK):
        indices = np.arange(start, min(start + _BLOCK, num_examples))
        marks = np.asarray(has_image(indices), dtype=bool)
        packed_bits = np.packbits(marks, bitorder="little")
        flat[start // 8 : start // 8 + len(packed_bits)] = packed_bits
        words = words_of(indices, lengths(indices).astype(np.int64))
        assert int(words.min()) >= 0
        for kind, mask in enumerate((marks, ~marks)):
            kind_words = words[mask]
            longest[kind] = _smallest(longest[kind], kind_words, counts[kind], keep)
            counts[kind] += len(kind_words)
    ones = np.zeros(len(bits) + 1, np.uint32)
    for line in range(0, len(bits), _BLOCK):
        ones[line + 1 : line + 1 + _BLOCK] = np.bitwise_count(bits[line : line + _BLOCK]).sum(axis=1)
    images = np.cumsum(ones, dtype=np.uint32)[:-1]
    texts = np.arange(len(bits), dtype=np.uint32) * np.uint32(8 * _LINE) - images
    return [
        Modality(bits, xor_mask, before, count, [(word, number) for word, number in pairs.T.tolist()])
        for xor_mask, before, count, pairs in zip((0, 255), (images, texts), counts, longest, strict=True)
    ]


def _smallest(
    pairs: NDArray[np.int64], words: NDArray[np.int64], number: int, keep: int
) -> NDArray[np.int64]:
    """Returns the `keep` smallest words of `pairs` and `words`, with their numbers, int64 [2, keep], ascending."""
    if pairs.shape[1] == keep:
        places = np.flatnonzero(words < pairs[0, -1])
    elif keep < len(words):
        places = np.argpartition(words, keep)[:keep]
    else:
        places = np.arange(len(words))
    both = np.concatenate([pairs, [words[places], number + places]], axis=1)
    return both[:, both[0].argsort()[:keep]]


BATCHES = 0x62617463686573
"""Separates this seed from other derived ones ("batches" in ASCII)."""


class ModalityBatches:
    """Cuts each modality's examples, shuffled, into batches; the batches are shuffled, with the longest first.

    The batch with the longest example comes first, so that running out of memory shows at the first step. A modality's
    last batch is filled up from the start of its order, or left out with `drop_last`. The examples are read once
    and kept as a bit each. Then any batch of any epoch is made without the batches before it.

    Example:
        >>> data = np.array([[True, 9], [True, 5], [False, 3]])
        >>> batches = ModalityBatches(lambda i: data[i, 0] > 0, lambda i: data[i, 1], 3, size=2, drop_last=True)
        >>> batches.num_batches, batches.num_dropped
        ([1, 0], [0, 1])
    """

    def __init__(self, has_image: Look, lengths: Look, num_examples: int, size: int, drop_last: bool) -> None:
        """Reads which examples have images, and their lengths, by functions. Raises ValueError if no batch is left."""
        self.lengths, self.size = lengths, size
        # less than a batch of a modality is left out, so one of so many is not
        self._modalities = scan(has_image, lengths, num_examples, keep=size if drop_last else 1)
        counts = [modality.size for modality in self._modalities]
        self.num_batches = [n // size if drop_last else -(-n // size) for n in counts]
        self.per_epoch = sum(self.num_batches)
        self.num_repeated = [max(0, m * size - n) for n, m in zip(counts, self.num_batches, strict=True)]
        self.num_dropped = [max(0, n - m * size) for n, m in zip(counts, self.num_batches, strict=True)]
        self._first = (-1, -1)
        if not self.per_epoch:
            raise ValueError(
                f"No batch is left: global_batch_size is {size}, there are {counts[0]} examples with images and "
                f"{counts[1]} without, and drop_last leaves out incomplete batches. Lower "
                "global_batch_size or set drop_last=False."
            )

    def take(self, numbers: NDArray[np.int64], seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the batches with the given `numbers`, int64 [M], in the order of the epoch with this `seed`.

        Returns indices int64 [M, B], and for each row how many of its indices are not repeats, int64 [M].
        """
        if self._first[0] != seed:
            self._first = seed, self._find_first(seed)
        first = self._first[1]
        numbers = np.where(numbers == first, 0, np.where(numbers == 0, first, numbers))
        rows = permute_many(numbers, self.per_epoch, derive_seed(seed, BATCHES))
        indices = np.empty((len(rows), self.size), np.int64)
        sizes = np.full(len(rows), self.size)
        for kind, (modality, count) in enumerate(zip(self._modalities, self.num_batches, strict=True)):
            positions = np.flatnonzero((rows >= 0) & (rows < count))
            if len(positions):
                places = (rows[positions, None] * self.size + np.arange(self.size)).ravel() % modality.size
                members = permute_many(places, modality.size, derive_seed(seed, kind))
                indices[positions] = modality.members(members).reshape(len(positions), self.size)
                sizes[positions[rows[positions] == count - 1]] -= self.num_repeated[kind]
            rows -= count
        return indices, sizes

    def _find_first(self, seed: int) -> int:
        """Returns the shuffled position of the batch with the longest example; ties go to the lowest index."""
        candidates, base = [], 0
        for kind, (modality, count) in enumerate(zip(self._modalities, self.num_batches, strict=True)):
            for word, number in modality.longest if count else ():
                place = permute(number, modality.size, derive_seed(seed, kind), inverse=True)
                places = [p for p in (place, place + modality.size) if p < count * self.size]
                rows = [base + p // self.size for p in places]
                if rows:  # else it is left out
                    order = derive_seed(seed, BATCHES)
                    numbers = [permute(row, self.per_epoch, order, inverse=True) for row in rows]
                    candidates.append((word, min(numbers)))
                    break
            base += count
        return min(candidates)[1]

    def dealt(
        self, indices: NDArray[np.int64], num_ranks: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the examples of batches [M, B], longest first in each batch, and their ranks, both int64 [M, B]."""
        lengths = self.lengths(indices.ravel()).astype(np.int64).reshape(indices.shape)
        words = np.sort(words_of(indices, lengths), axis=1)
        return words & INDEX, deal_evenly(lengths_of(words), num_ranks).T


def deal_evenly(lengths: NDArray[np.int64], num_ranks: int) -> NDArray[np.int64]:
    """Returns the rank of each example, int64 [B, M], given lengths int64 [M, B] in dealing order.

    Each example goes to the rank with the smallest sum so far, ties to the first; a rank with B / R examples is full.
    """
    num_batches, size = lengths.shape
    if num_ranks == 1:
        return np.zeros((size, num_batches), dtype=np.int64)
    sums = np.zeros((num_ranks, num_batches), dtype=np.int64)
    room = np.full(num_ranks * num_batches, size // num_ranks)
    ranks = np.empty((size, num_batches), dtype=np.int64)
    for rank, amounts in zip(ranks, lengths.T, strict=True):
        np.argmin(sums, axis=0, out=rank)
        cells = rank * num_batches + np.arange(num_batches)
        room[cells] -= 1
        sums.reshape(-1)[cells] += np.where(room[cells], amounts, _FULL)
    return ranks
