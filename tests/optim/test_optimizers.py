"""All optimizers and their 8-bit variants: they learn, resume bit for bit, and obey the configured rate."""

import io
from typing import Any

import hydra
import pytest
import torch
from torch.optim import Optimizer

from tests.optim.tiny import NAMES, VARIANTS, make, short_schedule, state_bytes, tiny_bert, train
from tiryns.runner.build import build
from tiryns.runner.optim import get_optimizer


def equal(first: torch.nn.Module, second: torch.nn.Module) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def through_a_file(state: Any) -> Any:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.rows(1)
@pytest.mark.parametrize(("name", "quantized"), VARIANTS)
def test_learns(name: str, quantized: bool) -> None:
    model = tiny_bert()
    losses = train(model, make(name, quantized, model), range(24))
    assert losses[-1] < losses[0] - 0.15, losses


@pytest.mark.rows(2)
@pytest.mark.parametrize(("name", "quantized"), VARIANTS)
def test_resumes_bitwise(name: str, quantized: bool) -> None:
    model = tiny_bert()
    optimizer = make(name, quantized, model)
    scheduler = short_schedule(optimizer)
    train(model, optimizer, range(5), scheduler)
    saved = through_a_file([model.state_dict(), optimizer.state_dict(), scheduler.state_dict()])
    train(model, optimizer, range(5, 12), scheduler)

    resumed = tiny_bert(seed=1)
    second = make(name, quantized, resumed)
    again = short_schedule(second)
    resumed.load_state_dict(saved[0])
    second.load_state_dict(saved[1])
    again.load_state_dict(saved[2])
    train(resumed, second, range(5, 12), again)
    assert equal(model, resumed)


@pytest.mark.rows(1)
@pytest.mark.parametrize(("name", "quantized"), VARIANTS)
def test_every_group_obeys_the_schedule(name: str, quantized: bool) -> None:
    model = tiny_bert()
    optimizer = make(
        name, quantized, model, layer_decay=0.8, overrides=[{"pattern": "*.bias", "lr_scale": 0.5}]
    )
    base = [group["lr"] for group in optimizer.param_groups]
    assert len(set(base)) > 4
    scheduler = short_schedule(optimizer)
    applied = []
    train(model, optimizer, range(12), scheduler, after_step=lambda step: applied.append(rates(optimizer)))
    for step, rate in enumerate(applied):
        assert rate == pytest.approx([b * scheduler.schedule.factor(step) for b in base])


def rates(optimizer: Optimizer) -> list[float]:
    return [group["lr"] for group in optimizer.param_groups]


@pytest.mark.rows(2)
@pytest.mark.parametrize(("name", "quantized"), VARIANTS)
def test_a_rate_of_zero_moves_nothing_and_a_group_moves_by_its_own_rate(name: str, quantized: bool) -> None:
    model, still = tiny_bert(), tiny_bert()
    optimizer = make(name, quantized, model)
    train(model, optimizer, range(2))
    still.load_state_dict(model.state_dict())
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    train(model, optimizer, range(2, 4))
    assert equal(model, still)
    moving = optimizer.param_groups[0]
    moving["lr"] = 1e-3
    train(model, optimizer, range(4, 5))
    moved = {id(p) for p in moving["params"]}
    for before, after in zip(still.parameters(), model.parameters(), strict=True):
        assert torch.equal(before, after) == (id(after) not in moved)


def test_soap_only_measures_in_its_first_step() -> None:
    model, start = tiny_bert(), tiny_bert()
    optimizer = make("soap", False, model)
    train(model, optimizer, range(1))
    assert equal(model, start)
    train(model, optimizer, range(1, 2))
    assert not equal(model, start)


@pytest.mark.rows(4)
@pytest.mark.parametrize(
    ("name", "settings", "low", "high"),
    [
        ("sgd", {}, 4, 4.01),
        ("lion", {}, 4, 4.01),
        ("adamw", {}, 8, 8.01),
        ("sophiah", {}, 8, 8.01),
        ("adafactor", {}, 0.0, 0.3),
        ("muon", {}, 4, 7.5),
        ("normuon", {}, 4, 7.6),
        ("stable_adamw", {}, 8, 8.01),
        ("galore", {"rank": 8}, 0, 5.5),
    ],
)
def test_bytes_of_state_per_parameter(name: str, settings: dict[str, Any], low: float, high: float) -> None:
    model = tiny_bert(hidden_size=128, intermediate_size=256)
    optimizer = make(name, False, model, **settings)
    train(model, optimizer, range(1))
    size = state_bytes(optimizer) / sum(p.numel() for p in model.parameters())
    assert low <= size <= high


def test_settings_come_from_the_config_and_state_from_the_checkpoint() -> None:
    model = tiny_bert()
    optimizer = make("adamw", False, model, weight_decay=0.1)
    train(model, optimizer, range(3))
    second = make("adamw", False, model, weight_decay=0.2, betas=[0.8, 0.9])
    second.load_state_dict(through_a_file(optimizer.state_dict()))
    assert second.param_groups[0]["weight_decay"] == 0.2
    assert second.param_groups[0]["betas"] == (0.8, 0.9)
    parameter = second.param_groups[0]["params"][0]
    assert torch.equal(second.state[parameter]["exp_avg"], optimizer.state[parameter]["exp_avg"])
    soap = make("soap", False, model)
    train(model, soap, range(2))
    changed = make("soap", False, model, precondition_frequency=1, betas=[0.9, 0.8])
    changed.load_state_dict(through_a_file(soap.state_dict()))
    assert changed.state[parameter].items() >= {"precondition_frequency": 1, "shampoo_beta": 0.8}.items()
    plain, heavy = (make("rmsprop", False, model, momentum=momentum) for momentum in (0.0, 0.9))
    train(model, plain, range(1))
    heavy.load_state_dict(through_a_file(plain.state_dict()))
    train(model, heavy, range(1, 2))
    assert heavy.state[parameter]["momentum_buffer"].any(), "it begins where it is set"


@pytest.mark.parametrize("quantized", [False, True])
def test_the_state_of_another_optimizer_is_refused(quantized: bool) -> None:
    model = tiny_bert()
    saved = make("adamw", quantized, model).state_dict()
    kind = "adamw 8-bit" if quantized else "adamw"
    with pytest.raises(ValueError, match=f"of the optimizer {kind}, this run has lion"):
        make("lion", quantized, model).load_state_dict(saved)
    with pytest.raises(ValueError, match=r"does not know cls\.predictions\.decoder"):
        make("adamw", quantized, tiny_bert(tie_word_embeddings=False)).load_state_dict(saved)
    with pytest.raises(ValueError, match="groups the parameters in another way"):
        make("adamw", quantized, model, layer_decay=0.5).load_state_dict(saved)


SHAPING = {"galore": "rank", "shampoo": "block_size", "soap": "max_precondition_dim", "splus": "max_dim"}


@pytest.mark.parametrize(("name", "setting"), SHAPING.items())
def test_a_setting_that_shapes_the_state_stays_at_a_resume(name: str, setting: str) -> None:
    weight = torch.nn.Parameter(torch.ones(16, 16))
    first, second = (get_optimizer(name, [("layer.0.w", weight)], {setting: n}) for n in (4, 8))
    with pytest.raises(ValueError, match=rf"this run has 8: .* resume with optimizer\.{setting}=4"):
        second.load_state_dict(first.state_dict())
    del first.param_groups[0]["shapes"]  # as an older version saved it
    second.load_state_dict(first.state_dict())


def test_an_unknown_setting_is_an_error_that_knows_what_was_meant() -> None:
    for name in NAMES:
        with pytest.raises(ValueError, match=f"optimizer.typo_arg: {name} has "):
            get_optimizer(name, tiny_bert(), {"typo_arg": 3})
    with pytest.raises(ValueError, match="Did you mean 'weight_decay'"):
        get_optimizer("soap", tiny_bert(), {"weight_deca": 0.1})


@pytest.mark.parametrize(
    ("name", "settings", "quantized", "message"),
    [
        ("lars", {"momentum": 0.0}, False, "lars needs momentum above 0"),
        ("sgd", {"momentum": 0.0}, True, "sgd with quantized=true needs momentum above 0"),
        ("sgd", {"nesterov": True}, True, "does not know nesterov=True"),
        ("rmsprop", {"momentum": 0.5}, True, "does not know momentum=0.5"),
        ("adamw", {"betas": [0.9]}, False, "betas must be two numbers"),
        ("adamw", {"lr": -1.0}, False, "must not be negative"),
        ("galore", {"projection_type": "random"}, False, "projection_type='random'; there are: std"),
        ("galore", {"rank": 0}, False, "rank=0"),
        ("galore", {"rank": 64}, False, r"rank=64 must be .*query\.weight has 64 x 64"),
        ("galore", {"rank": 2.5}, False, "rank=2.5 must be a whole number"),
        ("shampoo", {"graft_type": "adam"}, False, "graft_type='adam'; there are: "),
        ("sophiah", {"hessian_distribution": "uniform"}, False, "hessian_distribution='uniform'"),
    ],
)
def test_settings_that_cannot_be_are_errors(
    name: str, settings: dict[str, Any], quantized: bool, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        get_optimizer(name, tiny_bert(), settings, quantized)


def test_the_command_line_reaches_groups_and_settings() -> None:
    overrides = [
        "optimizer=muon",
        "optimizer.adamw_lr=0.004",
        "optimizer.overrides=[{pattern: '*.layer.0.*', lr_scale: 0.1}]",
    ]
    with hydra.initialize_config_module("tiryns.conf", version_base="1.3"):
        config = hydra.compose("config", overrides=overrides)
    optimizer = build(config.optimizer, model=tiny_bert())
    rates = {name: group["lr"] for group in optimizer.param_groups for name in group["param_names"]}
    assert rates["bert.encoder.layer.0.output.dense.weight"] == pytest.approx(0.1 * config.optimizer.lr)
    assert rates["bert.encoder.layer.1.output.dense.weight"] == pytest.approx(config.optimizer.lr)
    assert rates["bert.encoder.layer.1.output.dense.bias"] == pytest.approx(0.004)
