"""A suite's best model lies apart from alike ones as seldom as its note says."""

import random

import pytest

from tiryns.runner.report.suite.figures import sum_up

SUITES, STATED = 600, 0.01


def share_apart(differences: list[float], seeds: int) -> float:
    """The share of simulated suites whose best model lies apart from all others; models differ by so much."""
    draw, apart = random.Random(seeds), 0
    suite = {"suite": "made", "tasks": {"t": {"larger_is_better": True}}, "summary": {}}
    models = [str(number) for number in range(len(differences))]
    for _ in range(SUITES):
        cells = {
            (model, "t"): {"figures": {str(seed): draw.gauss(mean, 1.0) for seed in range(seeds)}}
            for model, mean in zip(models, differences, strict=True)
        }
        apart += sum_up(suite, models, cells)["best"]["t"]["not_apart_from"] == []
    return apart / SUITES


@pytest.mark.slow
def test_alike_models_lie_apart_as_seldom_as_the_note_says() -> None:
    for models, seeds in ((2, 3), (2, 8), (3, 3)):
        found = share_apart([0.0] * models, seeds)
        assert found <= STATED + 3 * (STATED * (1 - STATED) / SUITES) ** 0.5
    assert share_apart([0.0, 10.0], 5) > 0.95, "models that differ do"
