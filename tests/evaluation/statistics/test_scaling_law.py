"""Optima of rates and laws of losses: exact where there is no noise, and intervals that hold as often as they say."""

import numpy as np
import pytest

from tiryns.runner.evaluation.statistics.scaling_law import (
    Law,
    at_best,
    law_of,
    optimum,
    predict,
    rate_at,
    transfer,
)

WIDTHS = [64, 96, 128, 192, 256, 384]
RATES = [2.0**power for power in range(-12, -5)]


def sizes_of(widths: list[int]) -> list[float]:
    return [24.0 * width**2 + 1024 * width for width in widths]


@pytest.mark.parametrize("best", [2**-10.3, 2**-9, 2**-7.6])
def test_lowest_point_of_a_parabola_is_found(best: float) -> None:
    losses = {rate: 3 + 0.2 * (np.log2(rate) - np.log2(best)) ** 2 for rate in RATES}
    found = optimum(losses)
    assert found is not None
    assert found.rate == pytest.approx(best)
    assert found.loss == pytest.approx(3)


def test_rate_next_to_the_best_rate_does_not_bend_the_parabola() -> None:
    losses = {rate: 3 + 0.05 * (np.log2(rate) + 10) ** 2 for rate in RATES}
    assert optimum({**losses, 1.003 * 2**-10: 3.003}) == optimum(losses)


def test_best_rate_at_an_end_is_no_optimum() -> None:
    assert optimum({rate: rate for rate in RATES}) is None
    assert optimum({rate: -rate for rate in RATES}) is None
    assert optimum({}) is None


def test_width_whose_runs_all_diverged_is_named() -> None:
    assert at_best({}).problem == "no run has a finite loss"


def test_rate_over_seeds_is_the_mean_of_logarithms_with_students_interval() -> None:
    curves: dict[int | None, dict[float, float]] = {
        seed: {2.0 ** (seed + d): d**2 for d in (-1, 0, 1)} for seed in (-10, -9, -8)
    }
    found, half = at_best(curves), 4.302653 / 3**0.5
    assert found.rate == pytest.approx(2**-9)
    assert found.interval is not None
    assert np.log2(found.interval) == pytest.approx([-9 - half, -9 + half], abs=1e-5)
    assert at_best({1: curves[-10]}).interval is None


def test_power_of_the_width_is_found_and_goes_on() -> None:
    rates = [0.5 / width for width in WIDTHS]
    assert transfer(WIDTHS, rates).power == pytest.approx(-1)
    assert transfer(WIDTHS, rates).ratio == pytest.approx(6)
    assert rate_at(512, WIDTHS, rates) == pytest.approx(0.5 / 512)


@pytest.mark.parametrize("law", [Law(2.0, 8.0, 0.3), Law(3.0, 100.0, 0.5), Law(0.0, 8.0, 0.08)])
def test_law_without_noise_is_found_again(law: Law) -> None:
    sizes = sizes_of(WIDTHS)
    found = law_of(sizes, [law.at(size) for size in sizes])
    assert found is not None
    assert [found.at(size) for size in sizes_of([512, 1024])] == pytest.approx(
        [law.at(size) for size in sizes_of([512, 1024])], rel=2e-3
    )


@pytest.mark.parametrize("losses", [[3, 3.1, 3.2, 3.3], [3, 2.8, 3.3, 2.99], [3, 3.1, 3.2]])
def test_losses_that_rise_have_no_law(losses: list[float]) -> None:
    sizes = sizes_of(WIDTHS[: len(losses)])
    assert law_of(sizes, losses) is None
    with pytest.raises(ValueError, match="does not fall with the size"):
        predict(sizes, losses, 0.0, 1e9)


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 4, 6])
@pytest.mark.parametrize("law", [Law(2.0, 8.0, 0.3), Law(0.0, 8.0, 0.08)])
def test_interval_holds_as_often_as_it_says(law: Law, count: int) -> None:
    draw, sizes, (size,) = np.random.default_rng(0), sizes_of(WIDTHS[-count:]), sizes_of([512])
    inside, widths = 0, []
    for _ in range(200):
        noise = draw.normal(0, 0.01, count + 1)
        losses = [law.at(one) + each for one, each in zip(sizes, noise, strict=False)]
        if law_of(sizes, losses) is None:  # which is refused
            continue
        found = predict(sizes, losses, 0.0, size)
        inside += found.low <= law.at(size) + noise[-1] <= found.high
        widths.append(found.high - found.low)
    assert inside >= 0.9 * len(widths)
    assert len(widths) > 190
    assert 0.02 < np.median(widths) < 0.8


def test_scatter_of_seeds_widens_the_interval() -> None:
    sizes = sizes_of(WIDTHS)
    losses = [Law(2.0, 8.0, 0.3).at(size) for size in sizes]
    sure, unsure = (predict(sizes, losses, deviation, sizes_of([512])[0]) for deviation in (0.0, 0.01))
    assert sure.high - sure.low < 0.01
    assert unsure.high - unsure.low > 0.06
    assert sure.value == unsure.value
