"""Student's interval for a mean. Imports no numpy, so that commands that print a table start at once."""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

ERROR = 0.05
"""The share of cases in which two equal settings may be called different."""


class Spread(NamedTuple):
    """Mean, standard deviation and Student's 95 % interval of values; None if there are too few values."""

    mean: float | None
    deviation: float | None
    interval: tuple[float, float] | None


def spread_of(figures: Sequence[float]) -> Spread:
    """Returns the spread of values over seeds or folds [N].

    Example:
        >>> spread_of([2.0]), spread_of([])
        (Spread(mean=2.0, deviation=None, interval=None), Spread(mean=None, deviation=None, interval=None))
    """
    several = len(figures) > 1
    return Spread(
        statistics.mean(figures) if figures else None,
        statistics.stdev(figures) if several else None,
        t_interval(figures) if several else None,
    )


def t_interval(differences: Sequence[float], error: float = ERROR) -> tuple[float, float]:
    """Returns Student's interval for the mean of two or more differences [N].

    Example:
        >>> low, high = t_interval([1.0, 2.0, 3.0])
        >>> round(low, 3), round(high, 3)
        (-0.484, 4.484)
    """
    mean, count = statistics.fmean(differences), len(differences)
    width = t_quantile(count - 1, error) * statistics.stdev(differences) / math.sqrt(count)
    return mean - width, mean + width


def t_quantile(freedom: int, error: float = ERROR) -> float:
    """Returns the bound that |t| of Student's distribution with `freedom` degrees exceeds with chance `error`.

    Example:
        >>> round(t_quantile(2), 3)
        4.303
    """
    return last_where(lambda t: within(t, freedom) < 1 - error, 0.0, 2.0 / error**2)


def within(t: float, freedom: int) -> float:
    """Returns the chance that Student's t with `freedom` degrees of freedom is within -t and t."""
    if math.isinf(t):
        return 1.0
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    is_odd = freedom % 2
    term = total = 1.0 if not is_odd else cosine if freedom > 1 else 0.0
    for j in range(2 + is_odd, freedom - 1, 2):
        term *= cosine**2 * (j - 1) / j
        total += term
    return 2 / math.pi * (angle + sine * total) if is_odd else sine * total


def last_where(holds: Callable[[float], bool], inside: float, outside: float) -> float:
    """Returns the last value at which a condition holds; it must hold at `inside`, and must not hold at `outside`."""
    for _ in range(60):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return inside
