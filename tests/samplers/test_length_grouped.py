import numpy as np
import pytest

from tests.samplers.sequences import Sequences, sequences
from tiryns.runner.samplers import LengthGrouped, Shuffled


def fill(data: Sequences, batches: list[np.ndarray]) -> float:
    """The share of real tokens where each batch is padded to its longest."""
    lengths = [data.lengths(batch[:, 1]) for batch in batches]
    return float(sum(part.sum() for part in lengths) / sum(part.max() * len(part) for part in lengths))


def test_batches_hold_similar_lengths_and_more_so_in_larger_pools() -> None:
    data = sequences(6400)
    fills = []
    for pool_batches in (1, 5, 100):
        sampler = LengthGrouped(data, 1, None, 64, 0, pool_batches)
        fills.append(fill(data, [sampler.global_batch(step) for step in range(len(sampler))]))
    shuffled = Shuffled(data, 1, None, 64, 0)
    baseline = fill(data, [shuffled.global_batch(step) for step in range(len(shuffled))])
    assert abs(fills[0] - baseline) < 0.02
    assert fills[0] < fills[1] - 0.2 < fills[2] - 0.2
    assert fills[2] > 0.9


def test_long_and_short_batches_come_in_any_order() -> None:
    data = sequences(6400)
    sampler = LengthGrouped(data, 1, None, 64, 0, 100)
    means = np.array([data.lengths(sampler.global_batch(step)[:, 1]).mean() for step in range(100)])
    assert abs(np.corrcoef(means, np.arange(100))[0, 1]) < 0.4
    assert abs(np.corrcoef(means[1:], means[:-1])[0, 1]) < 0.4


def test_pools_of_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="pool_batches is 0"):
        LengthGrouped(sequences(10), 1, None, 2, 0, 0)
