"""Percentile bootstrap intervals over samples (Efron 1979), from keyed resamples: a seed always gives the same resamples.

Letters in shapes: R resamples, D samples.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.order.keyed import sample_keys, token_bits

RESAMPLES = 1000
"""The default number of resamples of an interval."""

LEVEL = 0.95
"""The share of the resamples whose values are within the interval."""

_STREAM = 0x626F6F74
"""The stream of the keyed generator for resamples ("boot")."""

_AT_ONCE = 1 << 21
"""Draws of a block of resamples."""

Weights = NDArray[np.float64]
"""How often each of D samples is in each of R resamples [R, D]."""

Statistic = Callable[[Weights], Mapping[str, NDArray[np.float64]]]
"""A function from the weights of samples [R, D] to metrics by name, each [R] or [R, ...]."""


def resample(num_samples: int, resamples: int, seed: int) -> Iterator[Weights]:
    """Yields how often each of D samples is drawn in each resample of D draws with replacement, in blocks of resamples.

    Draw i of resample r depends on the seed, r and i alone.

    Example:
        >>> [weights] = resample(3, resamples=2, seed=0)
        >>> weights.shape, weights.sum(1).tolist()
        ((2, 3), [3.0, 3.0])
    """
    size = max(1, _AT_ONCE // num_samples)
    for start in range(0, resamples, size):
        numbers = np.arange(start, min(start + size, resamples))
        keys = sample_keys(seed, np.zeros_like(numbers), numbers, _STREAM)
        bits = token_bits(keys, np.full(len(numbers), num_samples))
        shares = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
        draws = (shares * num_samples).astype(np.int64).reshape(len(numbers), num_samples)
        draws += np.arange(len(numbers))[:, None] * num_samples
        yield np.bincount(draws.reshape(-1), minlength=draws.size).reshape(draws.shape).astype(np.float64)


def bootstrap(
    statistic: Statistic, num_samples: int, resamples: int = RESAMPLES, seed: int = 0, level: float = LEVEL
) -> dict[str, NDArray[np.float64]]:
    """Returns the percentile interval of every metric, [2] or [..., 2]: its lower and its upper end.

    Resamples in which a metric is NaN (a correlation of equal numbers) do not count; if all are NaN, the interval is
    NaN. Raises ValueError for no samples or no resamples.

    Example:
        >>> values = np.array([1.0, 2.0, 3.0, 4.0])
        >>> bootstrap(lambda weights: {"mean": weights @ values / weights.sum(1)}, 4)["mean"].tolist()
        [1.5, 3.5]
    """
    if num_samples < 1 or resamples < 1:
        raise ValueError(
            f"an interval needs samples and resamples, not {num_samples} samples in {resamples} resamples"
        )
    blocks = [dict(statistic(weights)) for weights in resample(num_samples, resamples, seed)]
    tail = (1 - level) / 2
    ends = [tail, 1 - tail]
    intervals = {}
    for name in blocks[0]:
        values = np.concatenate([block[name] for block in blocks])
        intervals[name] = np.full((*values.shape[1:], 2), np.nan)
        if (valid := ~np.isnan(values).all(0)).any():
            intervals[name][valid] = np.moveaxis(np.nanquantile(values[:, valid], ends, axis=0), 0, -1)
    return intervals


def each(weights: Weights, figures: Callable[[Weights], Mapping[str, float]]) -> dict[str, Weights]:
    """Returns metrics as arrays [R], computed for each resample on its own from its weights [D]."""
    rows = [figures(row) for row in weights]
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}
