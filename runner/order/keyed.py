"""Random numbers as functions of keys, by SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number
generators"): a sample's key is a hash of (seed, stream, epoch, index), a token's bits are a hash of (key, position).

Letters in shapes: D documents (samples), N tokens of all documents together.
"""

import operator

import numpy as np

_GOLDEN = 0x9E3779B97F4A7C15
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_MASK = (1 << 64) - 1
_BLOCK = 1 << 14
"""Words mixed at a time: 128 KiB of them and 128 KiB of scratch stay in the second-level cache."""


def mix64(x: np.ndarray) -> np.ndarray:
    """Applies SplitMix64's finaliser, a bijection of 64-bit words, to a uint64 array; returns the same shape."""
    words = np.array(x, dtype=np.uint64, order="C")
    _mix_in_place(words.reshape(-1))
    return words


def derive_seed(seed: int, *parts: int) -> int:
    """Returns a 64-bit seed derived from `seed` and `parts` (an epoch, a stream...); integers are taken modulo 2**64.

    Example:
        >>> derive_seed(7, 1, 0, 1)
        6719776826674404040
    """
    state = _mix_int((operator.index(seed) + _GOLDEN) & _MASK)
    for part in parts:
        state = _mix_int((state + (operator.index(part) + 1) * _GOLDEN) & _MASK)
    return state


def sample_keys(seed: int, epochs: np.ndarray, indices: np.ndarray, stream: int) -> np.ndarray:
    """Returns one key per sample, uint64 [D], for int epochs [D] and indices [D] of a stream, such as training.

    `sample_keys(seed, [e], [i], stream)` is `derive_seed(seed, stream, e, i)`.

    Example:
        >>> sample_keys(7, np.array([0, 0]), np.array([1, 2]), stream=1).tolist()
        [6719776826674404040, 16065119164534601379]
    """
    keys = np.full(len(epochs), derive_seed(seed, stream), dtype=np.uint64)
    for parts in (epochs, indices):  # the steps of `derive_seed`
        keys += (np.asarray(parts).astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN)
        _mix_in_place(keys)
    return keys


def token_bits(keys: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Returns 64 random bits per token, uint64 [N], for documents with keys uint64 [D] and lengths int [D] in tokens.

    The bits of token p of a document depend on its key and p alone.

    Example:
        >>> bits = token_bits(np.array([11, 12], dtype=np.uint64), np.array([2, 1]))
        >>> bits[2:].tolist() == token_bits(np.array([12], dtype=np.uint64), np.array([5]))[:1].tolist()
        True
    """
    assert len(keys) == len(lengths), (len(keys), len(lengths))
    counts = np.asarray(lengths, dtype=np.int64)
    starts = (np.cumsum(counts) - counts).astype(np.uint64)
    # Key minus start, so that adding the place in the whole array gives key plus place in the document.
    bits = np.repeat(np.asarray(keys, dtype=np.uint64) - starts * np.uint64(_GOLDEN), counts)
    _mix_in_place(bits, ramp=np.arange(1, min(_BLOCK, len(bits)) + 1, dtype=np.uint64) * np.uint64(_GOLDEN))
    return bits


def uniform(bits: np.ndarray) -> np.ndarray:
    """Returns uniform float32 in [0, 1) from the top 24 bits of each word; the low 40 bits are free for a second draw."""
    return (bits >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)


def _mix_int(x: int) -> int:
    """`mix64` of one Python integer below 2**64."""
    x = (x ^ (x >> 30)) * _MULTIPLIERS[0] & _MASK
    x = (x ^ (x >> 27)) * _MULTIPLIERS[1] & _MASK
    return x ^ (x >> 31)


def _mix_in_place(words: np.ndarray, ramp: np.ndarray | None = None) -> None:
    """Mixes a flat contiguous uint64 array, a cache-sized block at a time, without allocation in a block.

    `ramp` has the multiples 1, 2, ... of `_GOLDEN` for a block; if given, (i + 1) * `_GOLDEN` is first added to word i.
    """
    scratch = np.empty(min(_BLOCK, len(words)), dtype=np.uint64)
    for start in range(0, len(words), _BLOCK):
        x = words[start : start + _BLOCK]
        high_bits = scratch[: len(x)]
        if ramp is not None:
            x += ramp[: len(x)]
            x += np.uint64(start * _GOLDEN & _MASK)
        for shift, multiplier in ((30, _MULTIPLIERS[0]), (27, _MULTIPLIERS[1])):
            np.right_shift(x, np.uint64(shift), out=high_bits)
            x ^= high_bits
            x *= np.uint64(multiplier)
        np.right_shift(x, np.uint64(31), out=high_bits)
        x ^= high_bits
