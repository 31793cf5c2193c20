"""Tests of few pairs: their p, their error rate at any time, and figures that were published."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from tiryns.runner.evaluation.statistics.paired import (
    EXACT,
    clear_after,
    clear_among,
    first_look,
    holm,
    interval,
    pairs_needed,
    sign_flip_p,
    spent,
    t_statistic,
)
from tiryns.runner.evaluation.statistics.student import t_interval

DARWIN = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
"""Heights of crossed less self-fertilised maize, in eighths of an inch; Fisher 1935 flips their signs in section 21."""

some = st.lists(st.floats(-4, 4).map(lambda x: round(x, 3)), min_size=1, max_size=10)


def test_sign_flips_of_darwins_maize_are_those_that_fisher_counted() -> None:
    assert sign_flip_p(DARWIN) == 2 * 863 / 2**15


@settings(max_examples=40)
@given(st.lists(st.integers(-4000, 4000).map(lambda x: x / 1000), min_size=3, max_size=20).filter(np.std))
def test_p_and_intervals_are_those_of_scipy(differences: list[float]) -> None:
    theirs = stats.ttest_rel(differences, np.zeros(len(differences)))
    assert t_statistic(differences) == pytest.approx(theirs.statistic, rel=1e-6, abs=1e-9)
    assert t_interval(differences) == pytest.approx(tuple(theirs.confidence_interval()), rel=1e-6, abs=1e-9)
    if len(differences) <= 10:
        flipped = stats.permutation_test(
            (differences, np.zeros(len(differences))), lambda x, y: np.sum(x - y), permutation_type="samples",
            n_resamples=np.inf,
        )  # fmt: skip
        assert sign_flip_p(differences) == pytest.approx(flipped.pvalue)


@pytest.mark.rows(1)
@pytest.mark.parametrize("error", [0.05, 0.01])
def test_share_of_paths_that_are_ever_clear_is_within_the_error(error: float) -> None:
    sizes = np.random.default_rng(1).exponential(size=12)
    for pairs in (first_look(error) - 1, first_look(error), 10, 11):
        paths = itertools.product([1], *[[-1, 1]] * (pairs - 1))  # the mirrored ones are as clear
        clear = [clear_after(sizes[:pairs] * signs, error) is not None for signs in paths]
        assert np.mean(clear) <= spent(pairs, error) <= error
        assert np.mean(clear) > 0.9 * spent(pairs, error) - 2 / 2**pairs  # and none of it is wasted


def of_two_sizes(draw: np.random.Generator) -> NDArray[np.float64]:
    """Differences where either run may have stayed on a plateau."""
    return draw.choice([-1.0, 0.0, 1.0], 10, p=[0.4, 0.2, 0.4]) + draw.normal(0, 0.01, 10)


KINDS = {
    "normal": lambda draw: draw.normal(0, 1, 10), "with heavy tails": lambda draw: draw.standard_cauchy(10),
    "of skewed runs": lambda draw: draw.exponential(size=10) - draw.exponential(size=10),
    "of two sizes": of_two_sizes, "of whole steps": lambda draw: draw.integers(-2, 3, 10) / 200,
}  # fmt: skip


@pytest.mark.rows(2)
@pytest.mark.parametrize("kind", KINDS)
def test_settings_that_are_alike_are_seldom_called_different(kind: str) -> None:
    draw = np.random.default_rng(0)
    alike = [KINDS[kind](draw) for _ in range(1000)]
    called = np.mean([clear_after(differences) is not None for differences in alike])
    assert called < spent(10) + 3 * math.sqrt(spent(10) / len(alike))  # as close as so many can tell
    if kind == "of two sizes":  # where a t-test that is looked at after each pair is not to be trusted
        looks = [stats.ttest_1samp(np.array(alike)[:, :n], 0, axis=1).pvalue for n in range(3, 11)]
        assert np.mean(np.min(looks, axis=0) < 0.05) > 0.2


def test_more_pairs_than_are_enumerated_keep_the_error() -> None:
    draw = np.random.default_rng(0)
    alike = draw.normal(0, 1, (70, EXACT + 8))
    called = np.mean([clear_after(differences) is not None for differences in alike])
    assert called < 0.05 + 3 * math.sqrt(0.05 / len(alike))
    assert clear_after(alike[0] + 1) is not None
    exact = 2 * sum(math.comb(24, ups) for ups in range(16, 25)) / 2**24  # of 24 signs 16 or more alike
    assert sign_flip_p([1.0, -1.0] * 8 + [1.0] * 8) == pytest.approx(exact, abs=0.02)


@settings(max_examples=40)
@given(some, st.integers(0, 10))
def test_what_is_clear_stays_clear_with_more_pairs(differences: list[float], count: int) -> None:
    longer = clear_after([*differences, *differences])
    assert clear_after(differences) == (longer if longer and longer <= len(differences) else None)


@settings(max_examples=10)
@given(st.lists(st.floats(0.1, 4), min_size=6, max_size=10), st.data())
def test_interval_leaves_zero_out_exactly_where_it_is_clear(sizes: list[float], data: st.DataObject) -> None:
    signs = data.draw(st.lists(st.sampled_from([1, 1, 1, -1]), min_size=len(sizes), max_size=len(sizes)))
    differences = [size * sign for size, sign in zip(sizes, signs, strict=True)]
    found = interval(differences)
    assert found is not None
    low, high = found
    if clear_after(differences) is None:
        assert low <= 0 <= high
    moved = [d + 10 for d in differences]
    assert interval(moved) == pytest.approx((low + 10, high + 10), abs=1e-6)
    assert clear_after([d - high - 1e-6 for d in differences]) is not None
    assert clear_after([d - low + 1e-6 for d in differences]) is not None


def test_end_that_is_zero_but_for_rounding_is_zero() -> None:
    low, high = interval([-0.1333, 0.0, -0.2, -0.15, -0.1667, -0.05, -0.25]) or (1.0, 1.0)
    assert (low < -0.1, high) == (True, 0.0)


def test_fewer_pairs_than_the_first_look_have_no_interval() -> None:
    assert interval([1.0] * 5) is None
    assert interval([1.0] * 6) == pytest.approx((1.0, 1.0))
    assert clear_after([1.0] * 5) is None


@pytest.mark.parametrize(("effect", "pairs"), [(0.5, 34), (0.8, 15), (3.0, 6)])
def test_pairs_needed_are_those_of_the_tables(effect: float, pairs: int) -> None:
    differences = effect + np.array([-1.0, 1.0, -1.0, 1.0]) * math.sqrt(3) / 2
    assert pairs_needed(differences) == pairs


def test_pairs_needed_are_not_named_where_nothing_is_known() -> None:
    assert pairs_needed([1.0]) is pairs_needed([1.0, -1.0]) is pairs_needed([1.0, -1.001] * 3) is None


@settings(max_examples=40)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_the_closed_test_of_bonferroni(tests: list[float]) -> None:
    """A hypothesis falls once every set of hypotheses with it does."""
    numbers = range(len(tests))
    sets = [some for size in numbers for some in itertools.combinations(numbers, size + 1)]
    expected = [max(min(1.0, len(s) * min(tests[i] for i in s)) for s in sets if i in s) for i in numbers]
    assert holm(tests) == pytest.approx(expected, rel=1e-12)


def test_settings_are_clear_at_the_level_that_is_left_to_them() -> None:
    clear, unclear = [1.0, 1.1, 0.9, 1.0, 1.2, 1.0, 1.1, 1.05], [1.0, -1.0] * 4
    assert clear_among([clear]) == [0.05]
    assert clear_among([clear, unclear]) == [0.025, None]
    assert clear_among([clear[:6], unclear]) == [None, None]  # 6 pairs are too few for 0.025
    assert clear_among([clear, clear[:6]]) == [0.025, 0.05]


def test_family_of_settings_that_are_alike_keeps_the_error() -> None:
    draw = np.random.default_rng(2)
    families = draw.normal(0, 1, (300, 3, 10)) - draw.normal(
        0, 1, (300, 1, 10)
    )  # one setting compared with three
    called = np.mean([any(clear_among(list(family))) for family in families])
    assert called < spent(10) + 3 * math.sqrt(spent(10) / len(families))
