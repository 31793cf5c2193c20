"""The best rate of a curve of losses, how it scales with the width, and the law of the loss over sizes. numpy only."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.evaluation.statistics.student import ERROR, spread_of, t_interval, t_quantile

Floats = NDArray[np.float64]

EXPONENTS = np.geomspace(0.005, 5.0, 2000)
"""Candidate exponents of the law."""

NEAR = 0.1
"""A rate whose base-2 logarithm is nearer to the best one's does not count: noise decides the slope between them."""


class Optimum(NamedTuple):
    """The best rate of a curve of losses over rates, and the loss there."""

    rate: float
    loss: float


class Prediction(NamedTuple):
    """A predicted metric, with the ends of its interval."""

    value: float
    low: float
    high: float


class Law(NamedTuple):
    """loss = floor + factor * size ** -exponent."""

    floor: float
    factor: float
    exponent: float

    def at(self, size: float) -> float:
        """Returns the loss of a size."""
        return float(self.floor + self.factor * size**-self.exponent)


def optimum(losses: Mapping[float, float]) -> Optimum | None:
    """Returns the lowest point of a parabola over log(rate), through a seed's best rate and the two rates beside it.

    `losses` has finite losses by rate. None if the best rate is the first or the last: a better rate may lie beyond it.

    Example:
        >>> found = optimum({1e-3: 2.2, 2e-3: 2.0, 4e-3: 2.0, 8e-3: 2.2})
        >>> round(found.rate, 5), round(found.loss, 3)
        (0.00283, 1.975)
    """
    rates = np.array(sorted(losses))
    values = np.array([losses[rate] for rate in rates.tolist()])
    best = int(values.argmin()) if len(values) else 0
    apart = np.abs(np.log2(rates) - np.log2(rates[best : best + 1])) > NEAR
    apart[best : best + 1] = True
    rates, values, best = rates[apart], values[apart], int(apart[:best].sum())
    if not 0 < best < len(rates) - 1:
        return None
    x = np.log2(rates) - np.log2(rates[best])
    a, b, c = np.polyfit(x[best - 1 : best + 2], values[best - 1 : best + 2], 2)
    at = -b / (2 * a) if a > 0 else 0.0  # all three may be equal
    return Optimum(float(2**at * rates[best]), float(a * at**2 + b * at + c))


class AtBest(NamedTuple):
    """A width at its best rate over seeds, or the reason why it has none."""

    rate: float | None = None
    interval: list[float] | None = None
    loss: float | None = None
    deviation: float | None = None
    """The standard deviation of `loss`."""
    problem: str = ""


def at_best(curves: Mapping[int | None, Mapping[float, float]]) -> AtBest:
    """Returns the best rate (geometric mean over seeds) and its mean loss; `curves` has each seed's losses by rate."""
    if not curves:
        return AtBest(problem="no run has a finite loss")
    optima = []
    for seed, losses in curves.items():
        if (one := optimum(losses)) is None:
            best = min(losses, key=losses.__getitem__)
            side = "smallest" if best == min(losses) else "largest"
            return AtBest(problem=f"the best rate of seed {seed}, {best:g}, is the {side} that was tried")
        optima.append(one)
    logs, spread = np.log([one.rate for one in optima]), spread_of([one.loss for one in optima])
    ends = np.exp(t_interval(logs.tolist())).tolist() if len(logs) > 1 else None
    return AtBest(float(np.exp(logs.mean())), ends, spread.mean, (spread.deviation or 0.0) / len(logs) ** 0.5)


class Transfer(NamedTuple):
    """How a value scales with the width: the exponent of its power law, and its largest value divided by its smallest."""

    power: float
    ratio: float


def transfer(widths: Sequence[int], values: Sequence[float]) -> Transfer:
    """Returns how the best rate, or another positive value, scales with the width."""
    return Transfer(float(np.polyfit(np.log(widths), np.log(values), 1)[0]), max(values) / min(values))


def rate_at(width: int, widths: Sequence[int], rates: Sequence[float]) -> float:
    """Returns the rate to expect at a width, by a power law of the width that is fitted to the known rates."""
    return float(np.exp(np.polyval(np.polyfit(np.log(widths), np.log(rates), 1), np.log(width))))


def law_of(sizes: Sequence[float], losses: Sequence[float]) -> Law | None:
    """Returns the law of least squares, with a floor of 0 for three sizes; None for fewer, or if losses do not fall."""
    x = np.asarray(sizes, float)
    if (solution := _fits(x, np.asarray(losses, float))) is None:
        return None
    _, fits, best = solution
    (floor, factor), exponent = fits[best].tolist(), float(EXPONENTS[best])
    return Law(floor, factor * float(np.exp(np.log(x).mean())) ** exponent, exponent)


def predict(
    sizes: Sequence[float], losses: Sequence[float], deviation: float, size: float, error: float = ERROR
) -> Prediction:
    """Returns the loss to expect of a size, and its interval over all laws that fit nearly as well as the best one.

    Args:
        sizes: Three sizes or more [N]; from four on the floor is fitted as well.
        losses: The loss of each size at its best rate, over equal seeds [N].
        deviation: The standard deviation of such a loss over seeds; 0 if unknown.
        size: The size of the model to come, trained with as many seeds.
        error: The share of cases in which the loss may lie outside the interval.

    Raises:
        ValueError: the losses do not fall with the size.

    The interval covers laws whose sum of squares exceeds the least sum by at most t**2 times the variance (profile
    likelihood). t is Student's, for the degrees of freedom left. The variance is the larger one of residuals and seeds.
    """
    x = np.asarray(sizes, float)
    if (solution := _fits(x, np.asarray(losses, float))) is None:
        raise ValueError(
            "the loss at the best rate does not fall with the size, so there is no law: train longer"
        )
    squares, fits, best = solution
    free = max(1, len(x) - (3 if len(x) > 3 else 2))
    variance = max(float(squares[best]) / free, deviation**2)
    to_spend = squares[best] + t_quantile(free, error) ** 2 * variance - squares
    z, ratios = _ratios(x, x), _ratios(x, np.array([size]))[:, 0]
    means = fits[:, 0] + fits[:, 1] * ratios
    # How the variance of the losses adds up in the law's value at the size
    leverage = ratios**2 / (z**2).sum(1)
    if len(x) > 3:
        centred_z = z - z.mean(1, keepdims=True)
        leverage = 1 / len(x) + (ratios - z.mean(1)) ** 2 / (centred_z**2).sum(1)
    reach = np.sqrt((1 + leverage) * np.maximum(0, to_spend))
    within = to_spend >= 0
    return Prediction(
        float(means[best]), float((means - reach)[within].min()), float((means + reach)[within].max())
    )


def _ratios(sizes: Floats, of: Floats) -> Floats:
    """Returns (size / geometric mean of the sizes) ** -exponent, for each exponent [E, N]."""
    ratios: Floats = (of / np.exp(np.log(sizes).mean())) ** -EXPONENTS[:, None]
    return ratios


def _fits(sizes: Floats, losses: Floats) -> tuple[Floats, Floats, int] | None:
    """Fits a law for each exponent; returns sums of squares [E], (floor, factor) [E, 2] and the index of the best law.

    Returns None for fewer than three sizes, and if losses do not fall.
    """
    if len(sizes) < 3 or losses[sizes.argmin()] <= losses[sizes.argmax()]:
        return None
    z = _ratios(sizes, sizes)
    alone = (z @ losses) / (z**2).sum(1)
    factor, floor = alone, np.zeros_like(alone)
    if len(sizes) > 3:
        centred_z = z - z.mean(1, keepdims=True)
        slope = (centred_z @ losses) / (centred_z**2).sum(1)
        at_zero = losses.mean() - slope * z.mean(1)
        factor, floor = np.where(at_zero > 0, slope, alone), np.maximum(at_zero, 0)
    squares = ((losses - floor[:, None] - factor[:, None] * z) ** 2).sum(1)
    best = int(squares.argmin())
    return None if factor[best] <= 0 else (squares, np.stack([floor, factor], 1), best)
