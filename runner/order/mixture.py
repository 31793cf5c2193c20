"""Chooses the source of each draw of a mixture, so that every source has its share at every draw, not only on average.

A period of draws repeats; in it each source has a whole number of draws. The j-th draw of a source comes after its share
of the draws has passed j - 1 and before it has passed j. Of the sources that may come, the source with the earliest
deadline is drawn. Such a schedule exists for all shares (Tijdeman 1980, "The chairman assignment problem"; Steiner and
Yeomans 1993, "Level schedules for mixed-model, just-in-time processes"), and drawing by the earliest deadline finds it.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

LONGEST_PERIOD = 1 << 16
"""Number of draws in the longest period; shares that would need a longer period are rounded to fit this one."""


def parts_of(weights: Mapping[str, float]) -> list[int]:
    """Returns each source's draws in a period, in proportion to positive weights; rounded if an exact period is too long.

    Raises ValueError for a source that would have less than one draw in `LONGEST_PERIOD`.

    Example:
        >>> parts_of({"books": 0.7, "web": 0.2, "code": 0.1})
        [7, 2, 1]
    """
    fractions = [Fraction(repr(float(weight))) for weight in weights.values()]  # .7 is 7/10 as it is written
    total, period = sum(fractions), 1
    shares = [fraction / total for fraction in fractions]
    for share in shares:
        period = min(math.lcm(period, share.denominator), LONGEST_PERIOD + 1)
    period = min(period, LONGEST_PERIOD)
    for name, share in zip(weights, shares, strict=True):
        if share * period < 1:
            raise ValueError(
                f"source {name} would have {float(share * period):.2g} of {period:,} draws: give it more"
            )
    parts = [math.floor(share * period) for share in shares]
    missing = sorted(range(len(parts)), key=lambda i: (parts[i] - shares[i] * period, i))
    for i in missing[: period - sum(parts)]:
        parts[i] += 1
    return parts


class MixedDraws:
    """Gives the source of any draw in constant time, from `parts`, the number of draws of each source in a period.

    After n draws, for every n, the number of draws of each of S sources differs by less than one from its share of n.

    Example:
        >>> draws = MixedDraws([3, 1])
        >>> draws.sources(0, 8).tolist(), draws.counts(6).tolist()
        ([0, 0, 0, 1, 0, 0, 0, 1], [5, 1])
    """

    def __init__(self, parts: Sequence[int]) -> None:
        self.parts = np.array(parts, np.int64)
        """Draws of each source in a period [S]."""
        self._period = _period(tuple(parts))

    def sources(self, start: int, stop: int) -> NDArray[np.int64]:
        """Returns the source of each of the draws [start, stop)."""
        places = start % len(self._period) + np.arange(stop - start, dtype=np.int64)
        return self._period[places % len(self._period)].astype(np.int64)

    def counts(self, number: int) -> NDArray[np.int64]:
        """Returns how many of the first `number` draws are from each source, int64 [S]."""
        periods, rest = divmod(number, len(self._period))
        return periods * self.parts + np.bincount(self._period[:rest], minlength=len(self.parts))


@lru_cache(maxsize=16)
def _period(parts: tuple[int, ...]) -> NDArray[np.int32]:
    """Returns the source of each draw of a period.

    If a source has a of the P draws, its draw j (from 1) has a number (from 0) of at least floor((j - 1) P / a) and at
    most ceil(j P / a) - 1: else the source would miss its share by one or more.
    """
    period = sum(parts)
    sources = np.repeat(np.arange(len(parts)), parts)
    counts = np.array(parts, np.int64)[sources]
    before = np.arange(period) - np.repeat(np.cumsum(parts) - parts, parts)
    first, last = before * period // counts, -(-(before + 1) * period // counts) - 1
    order = np.argsort(first, kind="stable")
    waiting: list[tuple[int, int]] = []
    coming = zip(first[order].tolist(), last[order].tolist(), sources[order].tolist(), strict=True)
    following = next(coming, None)
    draws = np.empty(period, np.int32)
    for number in range(period):
        while following is not None and following[0] <= number:
            heappush(waiting, following[1:])
            following = next(coming, None)
        draws[number] = heappop(waiting)[1]
    return draws
