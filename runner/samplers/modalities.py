"""Which examples have images: a bit for each, from which the n-th of a modality is found.

Letters in shapes: N examples, D of them.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Look = Callable[[np.ndarray], np.ndarray]
"""What is known of examples, given their indices int64 [D]."""

INDEX = (1 << 32) - 1
"""The bits of the index in a word."""

_LONGEST = (1 << 31) - 1
_BLOCK = 1 << 20  # examples looked at together
_LINE = 16  # bytes of the bit map between two counts
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
_ONES = _BITS.sum(axis=1, dtype=np.uint8)
_SET = np.argsort(1 - _BITS, axis=1, kind="stable")
"""The bits that are set in each byte, ascending, before those that are not."""


def words_of(indices: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """A word for each example, (longest possible - length) above and index below: sorting puts the longest first."""
    words: np.ndarray = (_LONGEST - lengths) << 32 | indices
    return words


def lengths_of(words: np.ndarray) -> np.ndarray:
    """The lengths in words."""
    lengths: np.ndarray = _LONGEST - (words >> 32)
    return lengths


class Modality(NamedTuple):
    """The examples of one modality, numbered by rising index.

    Example:
        >>> images, texts = scan(lambda i: i == 2, lambda i: 7 + i, num_examples=4, keep=1)
        >>> images.size, texts.size, texts.members(np.arange(3)).tolist()
        (1, 3, [0, 1, 3])
    """

    bits: np.ndarray
    """A bit per example of the dataset, uint8 [lines, bytes], shared with the other modality."""
    inverted: int
    """255 where the modality's bits are the zeros, else 0."""
    before: np.ndarray
    """Members before each line, uint32 [lines]."""
    size: int
    longest: list[tuple[int, int]]
    """Words and numbers of the longest members, longest first."""

    def members(self, numbers: np.ndarray) -> np.ndarray:
        """The indices of the members of some numbers, int64 [D] both."""
        lines = np.searchsorted(self.before, numbers.astype(np.uint32), side="right") - 1
        bits, rest = self.bits[lines] ^ np.uint8(self.inverted), numbers - self.before[lines]
        counts = np.cumsum(_ONES[bits], axis=1, dtype=np.uint8)
        byte, rows = (counts <= rest[:, None]).sum(axis=1), np.arange(len(numbers))
        bits = bits[rows, byte]
        rest -= counts[rows, byte] - _ONES[bits]
        indices: np.ndarray = (lines * _LINE + byte) * 8 + _SET[bits, rest]
        return indices


def scan(has_image: Look, lengths: Look, num_examples: int, keep: int) -> list[Modality]:
    """The examples with images and those without, with the `keep` longest of each; looks at each example once.

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
        packed = np.packbits(marks, bitorder="little")
        flat[start // 8 : start // 8 + len(packed)] = packed
        words = words_of(indices, lengths(indices).astype(np.int64))
        assert int(words.min()) >= 0
        for kind, chosen in enumerate((marks, ~marks)):
            own = words[chosen]
            longest[kind] = _smallest(longest[kind], own, counts[kind], keep)
            counts[kind] += len(own)
    ones = np.zeros(len(bits) + 1, np.uint32)
    for line in range(0, len(bits), _BLOCK):
        ones[line + 1 : line + 1 + _BLOCK] = _ONES[bits[line : line + _BLOCK]].sum(axis=1)
    images = np.cumsum(ones, dtype=np.uint32)[:-1]
    texts = np.arange(len(bits), dtype=np.uint32) * np.uint32(8 * _LINE) - images
    return [
        Modality(bits, inverted, before, count, [(word, number) for word, number in found.T.tolist()])
        for inverted, before, count, found in zip((0, 255), (images, texts), counts, longest, strict=True)
    ]


def _smallest(found: np.ndarray, words: np.ndarray, number: int, keep: int) -> np.ndarray:
    """The `keep` smallest of the words found so far and of more, with their numbers, int64 [2, keep], ascending."""
    if found.shape[1] == keep:
        places = np.flatnonzero(words < found[0, -1])
    elif keep < len(words):
        places = np.argpartition(words, keep)[:keep]
    else:
        places = np.arange(len(words))
    both = np.concatenate([found, [words[places], number + places]], axis=1)
    return both[:, both[0].argsort()[:keep]]
