"""The schedule: golden values, continuity, ends, fractions, errors, and what it does to an optimizer."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tiryns.runner.optim import InverseSqrtScheduler, ThreePhaseSchedule, get_scheduler, get_single_scheduler
from tiryns.runner.optim.schedule.phases import KINDS


def optimizer(*rates: float) -> torch.optim.Optimizer:
    return torch.optim.SGD([{"params": [torch.nn.Parameter(torch.ones(2))], "lr": rate} for rate in rates])


def run(scheduler: torch.optim.lr_scheduler.LRScheduler | None, steps: int) -> list[float]:
    assert scheduler is not None
    rates = []
    for _ in range(steps):
        rates.append(scheduler.optimizer.param_groups[0]["lr"])
        scheduler.optimizer.step()
        scheduler.step()
    return rates


def test_each_kind_alone() -> None:
    def down(kind: str, decay: float) -> list[float]:
        return run(get_single_scheduler(optimizer(1.0), kind, 4, decay, "decrease"), 6)

    assert down("constant", 0.5) == [0.5] * 6
    assert down("linear", 0.2) == pytest.approx([1, 0.8, 0.6, 0.4, 0.2, 0.2])
    assert down("cosine", 0.0) == pytest.approx([1, 0.8535534, 0.5, 0.1464466, 0, 0])
    assert down("exponential", 0.5) == pytest.approx([1, 0.5, 0.25, 0.125, 0.0625, 0.0625])
    assert down("inverse-sqrt", 0.0) == pytest.approx([1, 0.5, 0.29289, 0.13397, 0, 0], abs=1e-5)
    assert run(InverseSqrtScheduler(optimizer(1.0), 4), 6) == down("inverse_sqrt", 0.0)
    for kind in KINDS:
        rising = run(get_single_scheduler(optimizer(1.0), kind, 4, 0.5, "increase"), 5)
        assert rising == pytest.approx(down(kind, 0.5)[4::-1])


lengths = st.integers(0, 40)
kinds = st.sampled_from(KINDS)


@given(kinds, kinds, kinds, lengths, st.integers(0, 40), lengths, *[st.floats(0.01, 1.0)] * 3)
def test_continuous_positive_with_the_right_ends(
    warmup: str, training: str, cooldown: str, n: int, m: int, k: int, d: float, e: float, f: float
) -> None:
    if training == "constant" and n:
        e = 1.0
    if cooldown == "constant" and (n or m):
        f = 1.0
    schedule = ThreePhaseSchedule(warmup, n, d, training, m, e, cooldown, k, f)
    end = {"exponential": lambda decay, steps: decay**steps}
    factors = [schedule.factor(step) for step in range(n + m + k + 3)]
    assert all(0 < factor <= 1 for factor in factors)
    assert factors[-3:] == [factors[n + m + k]] * 3
    level = 1.0
    if n:
        assert factors[0] == pytest.approx(
            end.get(warmup, lambda decay, _: decay)(d, n) if warmup != "inverse_sqrt" else d
        )
        level = d if warmup == "constant" else 1.0
        assert factors[n] == pytest.approx(level * (e if training == "constant" and m else 1.0))
    for kind, decay, steps, at in ((training, e, m, n), (cooldown, f, k, n + m)):
        if steps:
            level *= end.get(kind, lambda decay, _: decay)(decay, steps)
            assert factors[at + steps] == pytest.approx(level)
    for phase in schedule.phases:
        assert phase.end is not None
        assert phase.factor(phase.end) == pytest.approx(schedule.factor(phase.end))


@given(kinds.filter(lambda kind: kind != "constant"), st.integers(50, 400), st.floats(0.0, 1.0))
def test_steps_of_the_rate_shrink_with_the_length(kind: str, n: int, decay: float) -> None:
    decay = max(decay, 1 - 2 / n) if kind == "exponential" else decay
    schedule = ThreePhaseSchedule(kind, n, decay, "linear", n, 0.5, kind, n, decay)
    factors = [schedule.factor(step) for step in range(3 * n + 1)]
    largest = max(abs(b - a) for a, b in pairwise(factors))
    assert largest <= (1.01 / n**0.5 if kind == "inverse_sqrt" else 2.1 / n)


def test_the_middle_phase_takes_what_is_left() -> None:
    schedule = ThreePhaseSchedule(warmup_steps=10, cooldown_steps=20, max_steps=100)
    assert [(p.name, p.start, p.end) for p in schedule.phases] == [
        ("warmup", 0, 10), ("training", 10, 80), ("cooldown", 80, 100)
    ]  # fmt: skip
    assert ThreePhaseSchedule(warmup_steps=10).num_steps is None
    assert ThreePhaseSchedule().factor(10**9) == 1.0


def test_phases_are_described_in_words() -> None:
    schedule = ThreePhaseSchedule("cosine", 2000, cooldown_steps=20, max_steps=5000)
    assert schedule.describe() == (
        "warmup 2,000 steps (cosine), training 2,980 steps (constant), cooldown 20 steps (linear)"
    )
    assert ThreePhaseSchedule().describe() == "training to the end (constant)"


def test_fractions_of_max_steps() -> None:
    schedule = ThreePhaseSchedule(warmup_steps=0.05, cooldown_steps=0.29, max_steps=100)
    assert [(p.start, p.end) for p in schedule.phases] == [(0, 5), (5, 71), (71, 100)]
    whole = ThreePhaseSchedule(warmup_steps=0.1, training_steps=0.7, cooldown_steps=0.2, max_steps=15)
    assert [(p.start, p.end) for p in whole.phases] == [(0, 1), (1, 12), (12, 15)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cooldown_steps": 5}, "cooldown_steps=5 needs a start"),
        ({"warmup_steps": 60, "cooldown_steps": 50, "max_steps": 100}, "do not fit into max_steps=100"),
        ({"warmup_steps": 60, "training_steps": 50, "max_steps": 100}, "110 steps"),
        ({"warmup_steps": -3}, "warmup_steps=-3 is neither"),
        ({"training_steps": -2, "max_steps": 10}, "training_steps=-2 is neither"),
        ({"training_kind": "cosin", "max_steps": 9}, "Did you mean 'cosine'?"),
        (
            {"training_kind": "linear", "training_decay": 1.5, "max_steps": 9},
            r"training_decay=1.5 is the end factor",
        ),
        ({"training_kind": "cosine", "training_decay": -0.1, "max_steps": 9}, r"must lie in \[0, 1\]"),
        ({"training_kind": "exponential", "training_decay": 0.0, "max_steps": 9}, r"must lie in \(0, 1\]"),
        ({"training_kind": "cosine"}, "needs a length"),
        ({"warmup_steps": 0.1}, "fraction of max_steps, which is not known"),
        ({"warmup_steps": 2.5, "max_steps": 9}, "neither"),
        ({"warmup_steps": "many", "max_steps": 9}, "warmup_steps='many'"),
        ({"warmup_steps": 2, "training_decay": 0.5, "max_steps": 9}, "would make the rate jump"),
        ({"training_steps": 10, "cooldown_steps": 10, "max_steps": 100}, "last 80 steps would train nothing"),
        ({"max_steps": 0}, "max_steps=0"),
    ],
)
def test_a_schedule_that_cannot_be_is_an_error(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ThreePhaseSchedule(**settings)
    with pytest.raises(ValueError, match=message):
        get_scheduler(optimizer(1.0), **settings)


def test_single_phases_check_their_arguments() -> None:
    with pytest.raises(ValueError, match="direction='sideways'"):
        get_single_scheduler(optimizer(1.0), "linear", 4, 0.0, "sideways")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="num_steps=-1"):
        get_single_scheduler(optimizer(1.0), "linear", -1, 0.0, "decrease")
    with pytest.raises(ValueError, match="cooldown_steps=0"):
        InverseSqrtScheduler(optimizer(1.0), 0)


def test_every_group_is_scaled_from_its_own_rate() -> None:
    scheduler = get_scheduler(optimizer(1.0, 0.01), warmup_steps=4, warmup_decay=0.1, max_steps=10)
    for step in range(10):
        rates = [group["lr"] for group in scheduler.optimizer.param_groups]
        assert rates == pytest.approx(
            [scheduler.schedule.factor(step), 0.01 * scheduler.schedule.factor(step)]
        )
        scheduler.optimizer.step()
        scheduler.step()


@pytest.mark.parametrize("at", [0, 3, 7, 11])
def test_a_resumed_schedule_goes_on_exactly(at: int) -> None:
    settings: dict[str, Any] = {
        "warmup_steps": 4, "cooldown_kind": "inverse_sqrt", "cooldown_steps": 4, "max_steps": 12,
    }  # fmt: skip
    undisturbed = run(get_scheduler(optimizer(0.3), **settings), 12)
    first = get_scheduler(optimizer(0.3), **settings)
    run(first, at)
    assert first.state_dict() == {"last_epoch": at}
    other = optimizer(0.3)
    second = get_scheduler(other, **settings)
    other.load_state_dict(first.optimizer.state_dict())
    second.load_state_dict(first.state_dict())
    assert run(second, 12 - at) == undisturbed[at:]


def test_a_run_branches_with_another_cool_down_and_rate() -> None:
    stable = get_scheduler(optimizer(0.3), warmup_steps=4, max_steps=100)
    run(stable, 20)
    other = optimizer(0.5)
    branch = get_scheduler(other, warmup_steps=4, training_steps=16, cooldown_steps=4, max_steps=24)
    other.load_state_dict(stable.optimizer.state_dict())
    branch.load_state_dict(stable.state_dict())
    assert run(branch, 5) == pytest.approx([0.5, 0.375, 0.25, 0.125, 0.0])
