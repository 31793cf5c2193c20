"""`runner.optim`: learning-rate schedules."""

import inspect
from typing import Any

import pytest
import torch
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from tiryns.runner.optim import InverseSqrtScheduler, get_scheduler, get_single_scheduler

GOLDEN = [0.1, 0.325, 0.55, 0.775, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25, 0]


def sgd(lr: float = 1.0, **group: Any) -> torch.optim.SGD:
    return torch.optim.SGD([{"params": [torch.zeros(1)], **group}], lr=lr)


def rates(scheduler: LRScheduler | None, steps: int) -> list[float]:
    assert scheduler is not None
    found = []
    for _ in range(steps):
        found.append(float(scheduler.get_last_lr()[0]))
        scheduler.optimizer.step()
        scheduler.step()
    return found


def test_inverse_sqrt_scheduler() -> None:
    scheduler = InverseSqrtScheduler(sgd(0.5), cooldown_steps=4)
    assert isinstance(scheduler, LambdaLR)
    assert rates(scheduler, 6) == pytest.approx([0.5, 0.25, 0.146447, 0.066987, 0, 0], abs=1e-6)
    assert (
        str(inspect.signature(InverseSqrtScheduler)).replace("torch.optim.optimizer.", "")
        == "(optimizer: Optimizer, cooldown_steps: int, last_epoch: int = -1) -> None"
    )


def test_inverse_sqrt_scheduler_goes_on() -> None:
    scheduler = InverseSqrtScheduler(sgd(0.1, initial_lr=1.0), 4, last_epoch=0)
    assert rates(scheduler, 4) == pytest.approx([0.5, 0.292893, 0.133975, 0], abs=1e-6)


def test_inverse_sqrt_lr_lambda() -> None:
    scheduler = InverseSqrtScheduler(sgd(), 4)
    assert [scheduler.lr_lambda(step) for step in (0, 1, 4, 100)] == [1.0, 0.5, 0.0, 0.0]


def test_get_scheduler_keeps_the_rate_by_default() -> None:
    scheduler = get_scheduler(sgd(0.3))
    assert isinstance(scheduler, LRScheduler)
    assert rates(scheduler, 5) == [0.3] * 5
    documented = {
        "warmup_kind": "linear", "warmup_steps": 0, "warmup_decay": 0.0, "training_kind": "constant",
        "training_steps": -1, "training_decay": 1.0, "cooldown_kind": "linear", "cooldown_steps": 0,
        "cooldown_decay": 0.0,
    }  # fmt: skip
    parameters = list(inspect.signature(get_scheduler).parameters.values())
    assert parameters[0].name == "optimizer"
    assert {p.name: p.default for p in parameters[1:10]} == documented


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"warmup_decay": 0.1}, GOLDEN),
        (
            {"cooldown_kind": "inverse-sqrt"},
            [0, 0.25, 0.5, 0.75, 1, 1, 1, 1, 1, 0.5, 0.292893, 0.133975, 0],
        ),
        (
            dict.fromkeys(("training_kind", "cooldown_kind"), "exponential")
            | dict.fromkeys(("training_decay", "cooldown_decay"), 0.5),
            [0, 0.25, 0.5, 0.75, 1, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625],
        ),
    ],
)  # fmt: skip
def test_get_scheduler_golden_values(settings: dict[str, Any], expected: list[float]) -> None:
    phases: dict[str, Any] = {"warmup_steps": 4, "training_steps": 4, "cooldown_steps": 4, **settings}
    assert rates(get_scheduler(sgd(), **phases), 13) == pytest.approx(expected, abs=1e-6)
    tenth = rates(get_scheduler(sgd(0.1), **phases), 13)
    assert tenth == pytest.approx([rate / 10 for rate in expected], abs=1e-6), "decays are factors"


def test_get_single_scheduler_without_steps_is_none() -> None:
    assert get_single_scheduler(sgd()) is None
    assert get_single_scheduler(sgd(), "linear", direction="decrease") is None


def test_get_single_scheduler_direction() -> None:
    def run(**direction: Any) -> list[float]:
        return rates(get_single_scheduler(sgd(), "linear", num_steps=4, decay=0.2, **direction), 5)

    falling = [1, 0.8, 0.6, 0.4, 0.2]
    assert run(direction="decrease") == pytest.approx(falling)
    assert run(direction="increase") == run() == pytest.approx(falling[::-1])
