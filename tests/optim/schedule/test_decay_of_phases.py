"""The weight decay of a phase is that of an optimizer built with the phase's settings, whichever optimizer it is."""

import copy
from typing import Any

import pytest
import torch

from tests.optim.test_formulas import DECOUPLED
from tests.optim.tiny import QUICK, VARIANTS, make, tiny_bert, train
from tiryns.conf.phases import Phase
from tiryns.runner.optim import ThreePhaseSchedule, loop_needs
from tiryns.runner.optim.schedule.chain import decays_of, schedule_of, timeline_of
from tiryns.runner.optim.schedule.schedulers import PhasedScheduler
from tiryns.runner.optim.table import OPTIMIZERS

PHASES = [Phase("first", steps=2), Phase("second", steps=2, optimizer={"weight_decay": 0.4})]

Weights = dict[str, torch.Tensor]


def rates_of(name: str, factor: float) -> dict[str, float]:
    """The peak rates of an optimizer times a factor."""
    known = {**vars(OPTIMIZERS[name]()), **QUICK.get(name, {})}
    return {key: factor * known[key] for key in ("lr", "adamw_lr") if key in known}


def phased(phases: list[Phase], optimizer: Any, name: str, **settings: Any) -> PhasedScheduler:
    """The scheduler of a run with a constant rate."""
    given = {"weight_decay": 0.1, **rates_of(name, 1.0), **settings}
    decays = decays_of(phases, given)
    assert decays is not None
    schedule = schedule_of({}, 4, phases, given["lr"])
    return PhasedScheduler(optimizer, schedule, timeline_of(phases), decays)


def weights(model: torch.nn.Module) -> Weights:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(one: Weights, other: Weights) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


def both_ways(
    name: str, quantized: bool, lr: float | None, decay: float, **settings: Any
) -> tuple[Weights, Weights]:
    """Weights after two steps of each phase, and after the second ones by an optimizer built with a phase's settings."""
    own = {"weight_decay": 0.4} if lr is None else {"weight_decay": 0.4, "lr": lr * rates_of(name, 1.0)["lr"]}
    phases = [Phase("first", steps=2), Phase("second", steps=2, optimizer=own)]
    model = tiny_bert()
    optimizer = make(name, quantized, model, weight_decay=0.1, **settings)
    scheduler = phased(phases, optimizer, name, **settings)
    train(model, optimizer, range(2), scheduler)
    begun, state = weights(model), copy.deepcopy(optimizer.state_dict())
    train(model, optimizer, range(2, 4), scheduler)
    loop_needs(optimizer).train_mode()
    other = tiny_bert()
    other.load_state_dict(begun)
    built = make(name, quantized, other, weight_decay=decay, **rates_of(name, lr or 1.0), **settings)
    peaks = [group["lr"] for group in built.param_groups]
    built.load_state_dict(state)
    for group, peak in zip(built.param_groups, peaks, strict=True):
        group["lr"] = peak
    train(other, built, range(2, 4))
    loop_needs(built).train_mode()
    return weights(model), weights(other)


@pytest.mark.rows(1)
@pytest.mark.parametrize(("name", "quantized"), VARIANTS)
def test_decay_is_that_of_an_optimizer_built_with_it(name: str, quantized: bool) -> None:
    found, expected = both_ways(name, quantized, 0.5, 0.4)
    assert same(found, expected)
    assert not same(found, both_ways(name, quantized, 0.5, 0.1)[1])


@pytest.mark.rows(2)
@pytest.mark.parametrize("setting", ["fully_decoupled", "cautious_decay"])
@pytest.mark.parametrize("name", DECOUPLED)
@pytest.mark.parametrize("lr", [None, 0.5])
def test_decay_apart_from_the_peak_or_by_sign(name: str, setting: str, lr: float | None) -> None:
    """By `fully_decoupled` a phase's own peak leaves its decay as it is written."""
    found, expected = both_ways(name, False, lr, 0.4, **{setting: True})
    assert same(found, expected)


def test_groups_that_do_not_decay_stay_and_others_change_in_proportion() -> None:
    model = tiny_bert()
    overrides = [{"pattern": "*query*", "weight_decay": 0.8}]
    optimizer = make("adamw", False, model, weight_decay=0.1, overrides=overrides)
    scheduler = phased(PHASES, optimizer, "adamw")
    before = [group["weight_decay"] for group in optimizer.param_groups]
    train(model, optimizer, range(2), scheduler)
    assert [group["weight_decay"] for group in optimizer.param_groups] == [4 * decay for decay in before]
    assert {0.0, 0.1, 0.8} == set(before)


def test_loaded_state_has_the_decay_of_its_step() -> None:
    model = tiny_bert()
    optimizer = make("adamw", False, model, weight_decay=0.1)
    scheduler = phased(PHASES, optimizer, "adamw")
    train(model, optimizer, range(3), scheduler)
    again = make("adamw", False, tiny_bert(), weight_decay=0.1)
    resumed = phased(PHASES, again, "adamw")
    assert again.param_groups[0]["weight_decay"] == 0.1
    again.load_state_dict(optimizer.state_dict())
    resumed.load_state_dict(scheduler.state_dict())
    assert again.param_groups[0]["weight_decay"] == pytest.approx(0.4, rel=1e-15)


def test_run_without_decay_has_none_to_change() -> None:
    with pytest.raises(
        ValueError, match=r"phases\[1\] \(second\).optimizer.weight_decay=0.4 scales .* is 0: set"
    ):
        decays_of(PHASES, {"weight_decay": 0.0})
    assert decays_of([Phase("a", steps=1)], {"weight_decay": 0.0}) is None
    assert isinstance(schedule_of({}, 4, PHASES, 1.0), ThreePhaseSchedule)


def test_decay_apart_from_the_peak_stays_where_only_the_peak_changes() -> None:
    phases = [Phase("first", steps=2), Phase("second", steps=2, optimizer={"lr": 0.5})]
    assert decays_of(phases, {"lr": 1.0, "weight_decay": 0.1, "fully_decoupled": True}) == [1.0, 2.0]
    assert decays_of(phases, {"lr": 1.0, "weight_decay": 0.1, "fully_decoupled": False}) is None
