"""Keyed permutations of [0, n) computed item by item, so that an epoch of any size needs no table.

Up to 256 items are sorted by hashes. Above, it is a generalised Feistel network (Black and Rogaway 2002, "Ciphers with
arbitrary finite domains", method 3): item x is the cell (x // columns, x % columns) of a table barely larger than n, each
round shifts one coordinate by a keyed hash of the other, and a result beyond n goes through again.
"""

import math
import operator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tiryns.runner.order.keyed import derive_seed

MAX_LENGTH = 1 << 60
"""The longest range `permute` serves."""

_MASK = (1 << 64) - 1
_MULTIPLIER = 0xD6E8FEB86659FD93
_NUM_ROUNDS = 8
_SMALL = 256
_BLOCK = 1 << 15
_EPOCH, _ORDER = 0x65706F6368, 0x6F72646572
"""Purposes of derived seeds ("epoch", "order" in ASCII), so that seeds of different purposes differ."""


def epoch_seed(seed: int, epoch: int) -> int:
    """Returns the seed of one epoch's order."""
    return derive_seed(seed, _EPOCH, epoch)


def permute(index: int, length: int, seed: int, inverse: bool = False) -> int:
    """Returns the image of `index` under a keyed bijection of [0, length), or its `inverse`, in constant time and memory.

    Raises ValueError for a length outside [1, `MAX_LENGTH`] and IndexError for an index outside [0, length).

    Example:
        >>> [permute(index, 5, epoch_seed(0, epoch=0)) for index in range(5)]
        [3, 4, 1, 2, 0]
        >>> permute(4, 5, epoch_seed(0, epoch=0), inverse=True)
        1
    """
    # integers of numpy would overflow below
    place, length = operator.index(index), operator.index(length)
    _check_range(place, place + 1, length)
    if length <= _SMALL:
        order = _small_order(length, seed)
        return order.index(place) if inverse else order[place]
    network = _network(length, seed)
    place = _pass(place, network, inverse)
    while place >= length:
        place = _pass(place, network, inverse)
    return place


def permute_block(start: int, stop: int, length: int, seed: int) -> np.ndarray:
    """Returns `permute` of every index in [start, stop), int64 [stop - start]; raises as `permute` does."""
    start, stop, length = operator.index(start), operator.index(stop), operator.index(length)
    _check_range(start, stop, length)
    return _permute(np.arange(start, stop, dtype=np.uint64), length, seed)


def permute_many(indices: np.ndarray, length: int, seed: int) -> np.ndarray:
    """Returns `permute` of each index in `indices`, int64 [N] for int64 [N]; raises as `permute` does."""
    first, last = (int(indices.min()), int(indices.max())) if len(indices) else (0, -1)
    _check_range(first, last + 1, operator.index(length))
    return _permute(indices.astype(np.uint64), length, seed)


def _permute(out: np.ndarray, length: int, seed: int) -> np.ndarray:
    """Returns the images of uint64 [N], which it overwrites, as int64 [N]."""
    if length <= _SMALL:
        return np.array(_small_order(length, seed), dtype=np.int64)[out.view(np.int64)]
    network = _network(length, seed)
    scratch = np.empty((3, min(_BLOCK, len(out))), dtype=np.uint64)
    for first in range(0, len(out), _BLOCK):
        block = out[first : first + _BLOCK]
        _encipher_block(block, network, scratch[:, : len(block)])
        beyond = np.flatnonzero(block >= np.uint64(length))
        while len(beyond):
            again = block[beyond]
            _encipher_block(again, network, scratch[:, : len(again)])
            block[beyond] = again
            beyond = beyond[again >= np.uint64(length)]
    return out.view(np.int64)


def _check_range(start: int, stop: int, length: int) -> None:
    """Raises IndexError unless 0 <= start <= stop <= length; ValueError for a length outside [1, `MAX_LENGTH`]."""
    if not 1 <= length <= MAX_LENGTH:
        raise ValueError(f"Cannot permute a range of length {length}: expected 1 to {MAX_LENGTH}.")
    if not 0 <= start <= stop <= length:
        raise IndexError(f"Indices {start} to {stop - 1} are not all in [0, {length}).")


class _Network(NamedTuple):
    """The `sizes` (rows, columns) of a table, and for each round the summand and the factor of its hash."""

    sizes: tuple[int, int]
    rounds: tuple[tuple[int, int], ...]


@lru_cache(maxsize=64)
def _small_order(length: int, seed: int) -> tuple[int, ...]:
    """Returns the integers of [0, length), sorted by distinct 64-bit hashes: each order is equally likely."""
    state = derive_seed(seed, _ORDER, length)
    return tuple(sorted(range(length), key=lambda index: derive_seed(state, index)))


@lru_cache(maxsize=64)
def _network(length: int, seed: int) -> _Network:
    """Returns the network of one length and seed: the table nearest to a square, a keyed hash per round."""
    rows = math.isqrt(length - 1) + 1
    columns = -(-length // rows)
    state = derive_seed(seed, _ORDER, length)
    rounds = tuple((derive_seed(state, i, 0), derive_seed(state, i, 1) | 1) for i in range(_NUM_ROUNDS))
    return _Network((rows, columns), rounds)


def _pass(cell: int, network: _Network, inverse: bool) -> int:
    """Passes a Python integer once through the network, or, for the inverse, back to the cell that maps to it."""
    columns = network.sizes[1]
    halves = list(divmod(cell, columns))
    for number in range(_NUM_ROUNDS)[:: -1 if inverse else 1]:
        (offset, factor), side = network.rounds[number], number & 1
        word = (halves[1 - side] * factor + offset) & _MASK
        word = ((word ^ (word >> 32)) * _MULTIPLIER & _MASK) >> 32
        shift = word * network.sizes[side] >> 32
        halves[side] = (halves[side] + (-shift if inverse else shift)) % network.sizes[side]
    return halves[0] * columns + halves[1]


def _encipher_block(x: np.ndarray, network: _Network, scratch: np.ndarray) -> None:
    """Passes each cell of `x`, uint64 [n], once through the network, in place, with scratch uint64 [3, n]."""
    sizes = [np.uint64(size) for size in network.sizes]
    rows, columns, word = scratch
    np.floor_divide(x, sizes[1], out=rows)
    np.multiply(rows, sizes[1], out=columns)
    np.subtract(x, columns, out=columns)
    for number, (offset, factor) in enumerate(network.rounds):
        side = number & 1
        target, source = (columns, rows) if side else (rows, columns)
        np.multiply(source, np.uint64(factor), out=word)
        word += np.uint64(offset)
        np.right_shift(word, np.uint64(32), out=x)
        word ^= x
        word *= np.uint64(_MULTIPLIER)
        word >>= np.uint64(32)
        word *= sizes[side]
        word >>= np.uint64(32)
        target += word
        # Below twice the size; where it is below the size already, the subtraction wraps to something huge.
        np.subtract(target, sizes[side], out=x)
        np.minimum(target, x, out=target)
    np.multiply(rows, sizes[1], out=x)
    x += columns
