"""The inverse of a permutation, and whether an order of a billion samples is as good as drawn by chance.

Bijections, blocks and golden values are in tests/loaders/test_multi_epoch.py.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiryns.runner.order.permutation import epoch_seed, permute, permute_block, permute_many

BILLION = 10**9
SOME, CELLS = 1 << 18, 1 << 12


def z_score(counts: np.ndarray, drawn: float = 0) -> float:
    """How many standard deviations the chi-square of counts lies above that of equally likely cells.

    `drawn` is the share of all there is that the counts are of, where nothing is drawn twice: then they vary less.
    """
    expected, freedom = counts.mean(), counts.size - 1
    chi_square = ((counts - expected) ** 2 / expected).sum() / (1 - drawn)
    return float((chi_square - freedom) / math.sqrt(2 * freedom))


@given(st.one_of(st.integers(1, 600), st.integers(1, 1 << 60)), st.integers(), st.data())
def test_a_sample_is_found_where_it_was_put(length: int, seed: int, data: st.DataObject) -> None:
    indices = data.draw(st.lists(st.integers(0, length - 1), max_size=8))
    images = permute_many(np.array(indices, dtype=np.int64), length, seed).tolist()
    assert images == [permute(index, length, seed) for index in indices]
    assert [permute(image, length, seed, inverse=True) for image in images] == indices


def test_what_is_outside_the_range_is_refused() -> None:
    for outside in (-1, 5):
        for inverse in (False, True):
            with pytest.raises(IndexError, match=f"{outside} are not all in"):
                permute(outside, 5, 0, inverse)
        with pytest.raises(IndexError, match="not all in"):
            permute_block(outside, 6, 5, 0)
        with pytest.raises(IndexError, match="not all in"):
            permute_many(np.array([2, outside]), 5, 0)


def cells(values: np.ndarray, count: int) -> np.ndarray:
    """Which of `count` equal parts of a billion each value lies in."""
    return values * count // BILLION


def test_the_samples_of_any_stretch_of_an_epoch_come_from_everywhere() -> None:
    starts = (0, BILLION // 3, BILLION - SOME)
    counts = []
    for epoch, start in enumerate(starts):
        found = permute_many(np.arange(start, start + SOME), BILLION, epoch_seed(0, epoch))
        assert len(np.unique(found)) == SOME
        counts.append(np.bincount(cells(found, CELLS), minlength=CELLS))
        pairs = cells(found[:-1], 32) * 32 + cells(found[1:], 32)  # of neighbours in the epoch
        assert abs(z_score(np.bincount(pairs, minlength=1 << 10))) < 4
        assert abs(z_score(np.bincount(found % 1024, minlength=1024), SOME / BILLION)) < 4
    assert max(abs(z_score(count, SOME / BILLION)) for count in counts) < 4


def test_each_sample_comes_anywhere_in_an_epoch_and_elsewhere_in_the_next() -> None:
    neighbours = range(123_456_789, 123_456_789 + 10_000)
    seeds = [epoch_seed(3, epoch) for epoch in (0, 1)]
    places = np.array([[permute(i, BILLION, seed, inverse=True) for i in neighbours] for seed in seeds])
    for row in places:
        assert abs(z_score(np.bincount(cells(row, 100), minlength=100))) < 4
        assert abs(z_score(np.bincount(cells(row[:-1], 10) * 10 + cells(row[1:], 10), minlength=100))) < 4
    assert abs(z_score(np.bincount(cells(places[0], 10) * 10 + cells(places[1], 10), minlength=100))) < 4


def test_an_order_that_is_not_shuffled_would_be_noticed() -> None:
    in_turn = np.arange(SOME) * 7 % BILLION
    assert abs(z_score(np.bincount(cells(in_turn, CELLS), minlength=CELLS), SOME / BILLION)) > 100
