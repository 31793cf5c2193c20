"""Random numbers that follow from a key, and not from when they are drawn.

A counter-based generator: the key of a sample is a hash of (seed, stream, epoch, index), the bits of a token
a hash of (key, position). It is SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number
generators") with the key as its state, so the same bits come out on every platform, in any process, in any
order.

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
    """SplitMix64's finaliser, a bijection of 64-bit words: any uint64 array to one of the same shape."""
    mixed = np.array(x, dtype=np.uint64, order="C")
    _mix_in_place(mixed.reshape(-1))
    return mixed


def derive_seed(seed: int, *parts: int) -> int:
    """A 64-bit seed for `parts` (an epoch, a stream...) under `seed`; integers count modulo 2**64.

    Example:
        >>> derive_seed(7, 1, 0, 1)
        6719776826674404040
    """
    state = _mix_int((operator.index(seed) + _GOLDEN) & _MASK)
    for part in parts:
        state = _mix_int((state + (operator.index(part) + 1) * _GOLDEN) & _MASK)
    return state


def sample_keys(seed: int, epochs: np.ndarray, indices: np.ndarray, stream: int) -> np.ndarray:
    """One key per sample, uint64 [D], for int epochs [D] and indices [D] of a stream of keys, such as training's.

    `sample_keys(seed, [e], [i], stream)` is `derive_seed(seed, stream, e, i)`.

    Example:
        >>> sample_keys(7, np.array([0, 0]), np.array([1, 2]), stream=1).tolist()
        [6719776826674404040, 16065119164534601379]
    """
    keys = _children(np.full(len(epochs), derive_seed(seed, stream), dtype=np.uint64), epochs)
    return _children(keys, indices)


def token_bits(keys: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """64 random bits per token, uint64 [N], for documents with keys uint64 [D] and lengths int [D] in tokens.

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
    ramp = np.arange(1, min(_BLOCK, len(bits)) + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    scratch = np.empty_like(ramp)
    for start in range(0, len(bits), _BLOCK):
        block = bits[start : start + _BLOCK]
        block += ramp[: len(block)]
        block += np.uint64(start * _GOLDEN & _MASK)
        _mix_block(block, scratch[: len(block)])
    return bits


def uniform(bits: np.ndarray) -> np.ndarray:
    """Uniform float32 in [0, 1) from the top 24 of each 64 bits; the low 40 are free for a second choice."""
    return (bits >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)


def _children(states: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """`derive_seed`'s step from each state, in place, for its own part."""
    states += (np.asarray(parts).astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN)
    _mix_in_place(states)
    return states


def _mix_int(x: int) -> int:
    """`mix64` of one Python integer below 2**64."""
    x = (x ^ (x >> 30)) * _MULTIPLIERS[0] & _MASK
    x = (x ^ (x >> 27)) * _MULTIPLIERS[1] & _MASK
    return x ^ (x >> 31)


def _mix_in_place(words: np.ndarray) -> None:
    """Mixes a flat contiguous uint64 array, a cache-sized block at a time."""
    scratch = np.empty(min(_BLOCK, len(words)), dtype=np.uint64)
    for start in range(0, len(words), _BLOCK):
        block = words[start : start + _BLOCK]
        _mix_block(block, scratch[: len(block)])


def _mix_block(x: np.ndarray, scratch: np.ndarray) -> None:
    """The finaliser on one block; no step allocates."""
    np.right_shift(x, np.uint64(30), out=scratch)
    x ^= scratch
    x *= np.uint64(_MULTIPLIERS[0])
    np.right_shift(x, np.uint64(27), out=scratch)
    x ^= scratch
    x *= np.uint64(_MULTIPLIERS[1])
    np.right_shift(x, np.uint64(31), out=scratch)
    x ^= scratch
