"""Learning rates as published recipes have them, by the settings of `scheduler`, alone or in phases."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from tiryns.conf.phases import phases_of
from tiryns.conf.scheduler import Constant, Cosine, Linear, Wsd
from tiryns.runner.optim.schedule.chain import ScheduleChain, schedule_of
from tiryns.runner.optim.schedule.phases import ThreePhaseSchedule

STEPS, WARMUP = 1000, 60
SQRT = {"training_kind": "inverse_sqrt"}


def trapezoid(step: float, warmup: float = WARMUP) -> float:
    return min(1.0, step / warmup)


def fall(done: float, end: float) -> float:
    """1 - sqrt, down to `end`."""
    return end + (1 - end) * (1 - math.sqrt(done))


def cosine(done: float, end: float) -> float:
    return end + (1 - end) * (1 + math.cos(math.pi * done)) / 2


def modernbert(step: int) -> float:
    if step < 600:
        return 8e-4 * trapezoid(step)
    return 3e-4 if step < 900 else 3e-4 * fall((step - 900) / 100, 0.001)


def ettin(step: int) -> float:
    if step < 600:
        return 3e-3 * trapezoid(step)
    if step < 900:
        return 3e-3 * fall((step - 600) / 300, 0.5)
    return 1.5e-3 * fall((step - 900) / 100, 0.04)


def mmbert_small(step: int) -> float:
    if step < 600:
        return 8e-4 * trapezoid(step)
    return 4e-4 if step < 900 else 4e-4 * (1 - (1 - 0.04) * (step - 900) / 100)


def neobert(step: int) -> float:
    if step < WARMUP:
        return 6e-4 * (1e-4 + (1 - 1e-4) * step / WARMUP)
    return 6e-4 * (cosine((step - WARMUP) / (900 - WARMUP), 0.1) if step < 900 else 0.1)


def eurobert(step: int) -> float:
    return 1e-4 * (trapezoid(step) if step < 960 else cosine((step - 960) / 40, 0.0))


def cramming(step: int) -> float:
    x = step / STEPS
    return 1e-3 * min(0.25 + x, 4 * (1 - x))


def gpt_bert(step: int) -> float:
    if step < 16:
        return step / 16
    return cosine((step - 16) / (984 - 16), 0.1) if step < 984 else 0.1 * (1 - (step - 984) / 16)


def mosaicbert(step: int) -> float:
    return 5e-4 * (trapezoid(step) if step < 60 else 1 - (1 - 0.02) * (step - 60) / 940)


LONG = {"warmup_steps": WARMUP}
RECIPES: dict[Callable[[int], float], tuple[Any, float, list[dict[str, Any]]]] = {
    modernbert: (
        Constant(),
        8e-4,
        [
            {"name": "short", "steps": 600, "scheduler": LONG},
            {"name": "long", "steps": 300, "optimizer": {"lr": 3e-4}},
            {"name": "decay", "steps": 100, "optimizer": {"lr": 3e-4}, "scheduler": {**SQRT, "training_decay": 0.001}},
        ],
    ),
    ettin: (
        Constant(),
        3e-3,
        [
            {"name": "short", "steps": 600, "scheduler": LONG},
            {"name": "long", "steps": 300, "scheduler": {**SQRT, "training_decay": 0.5}},
            {"name": "decay", "steps": 100, "optimizer": {"lr": 1.5e-3}, "scheduler": {**SQRT, "training_decay": 0.04}},
        ],
    ),
    mmbert_small: (
        Constant(training_kind="linear"),
        8e-4,
        [
            {"name": "short", "steps": 600, "scheduler": LONG},
            {"name": "long", "steps": 300, "optimizer": {"lr": 4e-4}},
            {"name": "decay", "steps": 100, "optimizer": {"lr": 4e-4}, "scheduler": {"training_decay": 0.04}},
        ],
    ),
    neobert: (Cosine(warmup_steps=WARMUP, warmup_decay=1e-4, training_steps=900 - WARMUP), 6e-4, []),
    eurobert: (Wsd(warmup_steps=WARMUP, cooldown_kind="cosine", cooldown_steps=0.04), 1e-4, []),
    cramming: (
        Wsd(warmup_steps=0.75, warmup_decay=0.25, cooldown_kind="linear", cooldown_steps=0.25), 1e-3, [],
    ),
    gpt_bert: (Cosine(warmup_steps=0.016, cooldown_kind="linear", cooldown_steps=0.016), 1.0, []),
    mosaicbert: (Linear(warmup_steps=0.06, training_decay=0.02), 5e-4, []),
}  # fmt: skip
"""The schedule, peak rate and phases of each recipe, here of 1000 steps."""


def settings(option: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(option).items() if name != "_target_"}


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.__name__)
def test_rate_is_that_of_the_recipe(recipe: Callable[[int], float]) -> None:
    option, lr, phases = RECIPES[recipe]
    schedule = schedule_of(settings(option), STEPS, phases_of(phases), lr)
    assert isinstance(schedule, ScheduleChain if phases else ThreePhaseSchedule)
    points = sorted({*range(0, STEPS, 50), 3, 15, 599, 601, 899, 901, 983, 999})
    assert [lr * schedule.factor(step) for step in points] == pytest.approx([recipe(step) for step in points])


def test_each_phase_has_the_schedule_of_the_run_over_its_own_steps_once_one_has_its_own() -> None:
    given = [{"name": "a", "steps": 40}, {"name": "b", "steps": 20, "optimizer": {"lr": 0.5}}]
    found = schedule_of(settings(Wsd()), 60, phases_of(given), 1.0)
    each = [schedule_of(settings(Wsd()), steps).factor for steps in (40, 20)]
    expected = [each[0](step) for step in range(40)] + [0.5 * each[1](step) for step in range(21)]
    assert [found.factor(step) for step in range(61)] == pytest.approx(expected)
    whole = schedule_of(
        settings(Wsd()), 60, phases_of([{"name": "a", "steps": 40}, {"name": "b", "steps": 20}]), 1.0
    )
    assert [whole.factor(step) for step in range(60)] == [
        schedule_of(settings(Wsd()), 60).factor(step) for step in range(60)
    ]
    assert any(abs(whole.factor(step) - found.factor(step)) > 0.1 for step in range(60))
    parts = [(part.start, part.end, part.level) for part in found.phases]
    assert parts == [(0, 2, 1), (2, 32, 1), (32, 40, 1), (40, 41, 0.5), (41, 56, 0.5), (56, 60, 0.5)]
    for part in found.phases:
        assert all(part.factor(step) == found.factor(step) for step in range(part.start, part.end or 0))


@pytest.mark.parametrize(
    ("phase", "lr", "message"),
    [
        (
            {"scheduler": {"cooldown_kind": "sinus"}},
            1.0,
            r"phases\[0\] \(a\).scheduler: cooldown_kind='sinus'; there",
        ),
        (
            {"scheduler": {"cooldown": 4}},
            1.0,
            r"phases\[0\] \(a\).scheduler.cooldown: .* Did you mean 'cooldown_",
        ),
        ({"scheduler": {"_target_": "x"}}, 1.0, r"phases\[0\] \(a\).scheduler._target_: a schedule has"),
        ({"optimizer": {"lr": -1}}, 1.0, r"phases\[0\] \(a\).optimizer.lr=-1: expected a number, 0 or more"),
        ({"optimizer": {"lr": "high"}}, 1.0, r"phases\[0\] \(a\).optimizer.lr='high': expected a number"),
        (
            {"optimizer": {"lr": 0.1}},
            0.0,
            r"phases\[0\] \(a\).optimizer.lr=0.1 scales .* optimizer.lr, which is 0",
        ),
    ],
)
def test_schedule_that_cannot_be_is_named(phase: dict[str, Any], lr: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        schedule_of(settings(Wsd()), 10, phases_of([{"name": "a", "steps": 10, **phase}]), lr)
