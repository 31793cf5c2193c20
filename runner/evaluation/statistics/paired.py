"""Tests of a few paired differences: 2 to 16 pairs of runs with equal seeds.

After pair k the differences d_1 ... d_k are tested by flipping their signs (`docs/judging.md` has the rule). A path is
one choice of the k signs. If both settings are alike, all 2^k paths are equally likely (Fisher 1935, The Design of
Experiments, section 21). The paths with the largest |d_1 + ... + d_k| are called clear, and stay clear. The error that
may be spent up to pair k limits their number; it depends on k alone (Lan and DeMets 1983, Biometrika 70). A t-test can be
clear after 3 pairs, but is wrong in a quarter of the cases if each difference is about +c or -c. A test by betting
(Waudby-Smith and Ramdas 2024, JRSS B 86) needs as many pairs as this test, and more once a sign differs.

Further sources: Student's distribution for whole degrees of freedom, Abramowitz and Stegun 26.7.3 and 26.7.4;
correction for several tests, Holm 1979, Scandinavian Journal of Statistics 6, and of sequential ones, Bartroff and Song
2014, JSPI 153.
"""

import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.evaluation.statistics.student import ERROR, last_where

Floats = NDArray[np.float64]

Differences = Sequence[float] | Floats
"""One difference for each pair, in the order of the pairs."""

AT_FIRST = 0.625
"""Share of the error that is spent at the first look: exactly 2 in 64 at an error of 5 %."""

EXACT = 16
"""Pairs up to which every path is examined; each further pair extends these paths by random signs."""

MOST = 10_000
"""Most pairs that `pairs_needed` returns as an estimate."""


def first_look(error: float = ERROR) -> int:
    """Returns the smallest number of pairs after which the differences can be clear.

    Example:
        >>> first_look(0.05), first_look(0.01)
        (6, 9)
    """
    return 1 + math.ceil(-math.log2(AT_FIRST * error) - 1e-9)


def spent(pairs: int, error: float = ERROR) -> float:
    """Returns the error that may be spent up to this number of pairs.

    Example:
        >>> [round(spent(k), 5) for k in (5, 6, 8, 16)]
        [0.0, 0.03125, 0.03945, 0.04736]
    """
    first = first_look(error)
    return 0.0 if pairs < first else error * (1 - (1 - AT_FIRST) * (first / pairs) ** 2)


def clear_after(differences: Differences, error: float = ERROR) -> int | None:
    """Returns the number of pairs after which it is clear that the differences [N] do not centre on 0; None if never.

    Example:
        >>> clear_after([0.3, 0.2, 0.1, 0.4, 0.2, 0.3]), clear_after([0.3, 0.2, -0.1, 0.4, 0.2, 0.3])
        (6, None)
    """
    clear = np.zeros(1, bool)
    for pairs, (sums, rounding) in enumerate(_paths(np.asarray(differences, np.float64)), 1):
        clear = np.tile(clear, len(sums) // len(clear))
        more = math.floor(spent(pairs, error) * len(sums) + 1e-9) - int(clear.sum())
        if more > 0:
            bound = np.partition(sums[~clear], -more - 1)[-more - 1]
            clear |= sums > bound + rounding  # ties with the first that is too many stay out
            if clear[0]:
                return pairs
    return None


def interval(differences: Differences, error: float = ERROR) -> tuple[float, float] | None:
    """Returns the interval of values v that the pairs [N] do not exclude: the differences minus v are not clear.

    It holds at any time: the chance that it ever leaves out the true difference is at most the error. None if there are
    fewer pairs than `first_look` (no bounds), or if the first pairs exclude all values that the later pairs suggest.

    Example:
        >>> low, high = interval([0.3, 0.2, 0.1, 0.4, 0.2, 0.3])
        >>> round(low, 6), round(high, 6)
        (0.1, 0.4)
    """
    deltas = np.asarray(differences, np.float64)
    if len(deltas) < first_look(error):
        return None

    def admits(value: float) -> bool:
        return clear_after(deltas - value, error) is None

    means = (np.cumsum(deltas) / np.arange(1, len(deltas) + 1))[::-1]
    inside = next(
        filter(admits, [*means.tolist(), *np.linspace(deltas.min(), deltas.max(), 101).tolist()]), None
    )
    if inside is None:
        return None
    room = float(np.ptp(deltas)) or abs(inside) or 1.0
    ends = (
        last_where(admits, inside, edge) for edge in (float(deltas.min()) - room, float(deltas.max()) + room)
    )
    low, high = (0.0 if abs(end) < 1e-8 * room else end for end in ends)  # 0 but for rounding
    return low, high


def sign_flip_p(differences: Differences) -> float:
    """Returns the share of sign flips of differences [N >= 1] whose mean is at least as far from 0; exact up to N = 16.

    Example:
        >>> sign_flip_p([0.3, 0.2, 0.1, 0.4, 0.2, 0.3])
        0.03125
    """
    *_, (sums, rounding) = _paths(np.asarray(differences, np.float64))
    return float(np.mean(sums >= sums[0] - rounding))


def skewness(differences: Differences) -> float | None:
    """Returns the skewness of differences [N], corrected for their number; None if N < 3 or all are equal.

    Joanes and Gill 1998, The Statistician 47, their G1.

    Example:
        >>> skewness([1.0, 2.0, 3.0]), round(skewness([0.0, 0.0, 0.0, 1.0]), 6)
        (0.0, 2.0)
    """
    deltas = np.asarray(differences, np.float64)
    count, deviations = len(deltas), deltas - deltas.mean()
    variance = float((deviations**2).mean())
    if count < 3 or variance <= 1e-24 * float((deltas**2).mean()):
        return None
    return float((deviations**3).mean() / variance**1.5) * math.sqrt(count * (count - 1)) / (count - 2)


def t_statistic(differences: Differences) -> float:
    """Returns Student's paired t of two or more differences [N].

    Example:
        >>> round(t_statistic([1.0, 2.0, 3.0]), 3)
        3.464
    """
    deltas = np.asarray(differences, np.float64)
    deviation = float(deltas.std(ddof=1)) / math.sqrt(len(deltas))
    mean = float(deltas.mean())
    return mean / deviation if deviation else math.copysign(math.inf, mean) if mean else 0.0


def pairs_needed(differences: Differences, error: float = ERROR, power: float = 0.8) -> int | None:
    """Estimates how many pairs in all detect a difference as large as the mean of `differences` with probability `power`.

    The estimate is the sample size of a t-test (Guenther 1981, The American Statistician 35), at least `first_look`.
    None for fewer than two differences, a mean of 0, or an estimate of more than 10,000 pairs.

    Example:
        >>> pairs_needed([1.0, -0.5, 0.8, 0.1])
        33
    """
    deltas = np.asarray(differences, np.float64)
    mean = float(deltas.mean()) if len(deltas) > 1 else 0.0
    if not mean:
        return None
    normal = NormalDist()
    at_last = normal.inv_cdf(1 - error / 2)
    size = ((at_last + normal.inv_cdf(power)) * float(deltas.std(ddof=1)) / mean) ** 2 + at_last**2 / 2
    return max(first_look(error), math.ceil(size)) if size <= MOST else None


def holm(tests: Sequence[float]) -> list[float]:
    """Returns p-values of tests, corrected so that they bound the chance of any false positive among them (Holm 1979).

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    p_values, least = [0.0] * len(tests), 0.0
    for rank, i in enumerate(sorted(range(len(tests)), key=lambda i: tests[i])):
        least = max(least, min(1.0, (len(tests) - rank) * tests[i]))
        p_values[i] = least
    return p_values


def clear_among(settings: Sequence[Differences], error: float = ERROR) -> list[float | None]:
    """Returns the level at which each of M settings is clear by Holm's rule, from its differences; None if not clear.

    The first must be clear at error / M, the next at error / (M - 1), and so on. So the chance that any setting is called
    different although it is like the setting that it is compared with is at most the error.

    Example:
        >>> clear_among([[0.3, 0.2, 0.1, 0.4, 0.2, 0.3, 0.2], [0.1, -0.2] * 4])
        [0.025, None]
    """
    levels: list[float | None] = [None] * len(settings)
    waiting = list(range(len(settings)))
    while waiting:
        # Also at every larger level, as closed testing wants it
        errors = [error / count for count in range(len(waiting), 0, -1)]
        clear = [i for i in waiting if all(clear_after(settings[i], level) is not None for level in errors)]
        if not clear:
            break
        for i in clear:
            levels[i] = errors[0]
        waiting = [i for i in waiting if i not in clear]
    return levels


def _paths(differences: Floats) -> Iterator[tuple[Floats, float]]:
    """Yields after each pair the |sum| of every path of signs [P], the observed first, and the rounding error of a sum.

    A path and its mirror have one |sum|, so the first sign stays as it is: P = 2^(pairs - 1), up to 2^15.
    """
    sums = np.zeros(1)
    for i, difference in enumerate(differences.tolist()):
        if i == 0:
            sums = sums + difference
        elif i < EXACT:
            sums = np.concatenate([sums + difference, sums - difference])
        else:
            signs = np.random.default_rng(i).choice([-1.0, 1.0], len(sums))
            signs[0] = 1.0
            sums = sums + signs * difference
        yield np.abs(sums), 1e-9 * float(np.abs(differences[: i + 1]).sum())
