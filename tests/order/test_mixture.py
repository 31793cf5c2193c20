"""The draws of a mixture: exact shares at every draw, from any number on."""

import hashlib

import numpy as np
import pytest

from tiryns.runner.order.mixture import LONGEST_PERIOD, MixedDraws, parts_of


def random_weights(seed: int) -> dict[str, float]:
    """From 2 to 8 weights, some of them far below others."""
    draw = np.random.default_rng(seed)
    return {f"s{i}": float(weight) for i, weight in enumerate(10 ** draw.uniform(-3, 0, draw.integers(2, 9)))}


@pytest.mark.parametrize("seed", range(8))
def test_after_any_draw_every_source_is_within_one_of_its_share(seed: int) -> None:
    weights, number = random_weights(seed), np.arange(1, 100_001)
    parts = parts_of(weights)
    sources = MixedDraws(parts).sources(0, len(number))
    for source, part in enumerate(parts):
        off = np.cumsum(sources == source) * sum(parts) - number * part
        assert np.abs(off).max() < sum(parts), (source, part)


def test_shares_are_the_weights_as_they_are_written() -> None:
    assert parts_of({"a": 0.7, "b": 0.3}) == parts_of({"a": 7, "b": 3}) == [7, 3]
    assert parts_of({"a": 26.0, "b": 20.2, "c": 10.5}) == [260, 202, 105]
    assert parts_of({"only": 0.123}) == [1]
    for seed in range(20):
        weights = random_weights(seed)
        parts, total = parts_of(weights), sum(weights.values())
        assert sum(parts) == LONGEST_PERIOD
        for part, weight in zip(parts, weights.values(), strict=True):
            assert abs(part / LONGEST_PERIOD - weight / total) < 1 / LONGEST_PERIOD


def test_source_with_less_than_a_draw_of_the_longest_period_is_named() -> None:
    assert parts_of({"large": 1.0, "least": 1.0001 / LONGEST_PERIOD})[1] >= 1
    with pytest.raises(ValueError, match=r"^source tiny would have 0\.066 of 65,536 draws: give it more$"):
        parts_of({"large": 1.0, "tiny": 1e-6})


def test_any_draw_is_reached_without_those_before_it() -> None:
    draws = MixedDraws(parts_of(random_weights(3)))
    sources = draws.sources(0, 150_000)
    for start, stop in ((0, 1), (65_530, 65_545), (131_071, 131_073), (149_000, 150_000)):
        assert draws.sources(start, stop).tolist() == sources[start:stop].tolist()
        counts = np.bincount(sources[:start], minlength=len(draws.parts))
        assert draws.counts(start).tolist() == counts.tolist()
    far = 10**12 * int(draws.parts.sum())
    assert draws.sources(far, far + 100).tolist() == sources[:100].tolist()
    assert draws.counts(far).tolist() == (10**12 * draws.parts).tolist()


def test_golden_values_never_change() -> None:
    assert MixedDraws([7, 3]).sources(0, 10).tolist() == [0, 0, 1, 0, 0, 1, 0, 0, 0, 1]
    assert MixedDraws([1, 1, 1]).sources(0, 6).tolist() == [0, 1, 2, 0, 1, 2]
    drawn = MixedDraws(parts_of(random_weights(0))).sources(0, 1 << 16).astype("<i4")
    assert hashlib.sha256(drawn.tobytes()).hexdigest()[:16] == "9676f2f84e97bc87"
