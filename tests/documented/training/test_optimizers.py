"""`runner.optim.get_optimizer` over torch's list of parameter groups."""

import copy
import importlib.util
import sys
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import Optimizer

from tiryns.runner.optim import get_optimizer, loop_needs

NAMES = (
    "adafactor", "adagrad", "adam", "adamw", "galore", "lamb", "lars", "lion", "muon", "sgd", "shampoo", "soap",
    "sophiah", "splus", "rmsprop",
)  # fmt: skip
EIGHT_BIT = ("adagrad", "adam", "adamw", "lamb", "lars", "lion", "rmsprop", "sgd")
SPLIT = ("galore", "muon", "soap", "splus")
"""Those that make two groups of a given one: its matrices, and the rest."""

RATES = {"lars": 5.0, "sgd": 0.05, "adafactor": 0.1, "soap": 0.02, "muon": 0.02, "splus": 0.1}


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 80), nn.LayerNorm(80), nn.GELU(), nn.Linear(80, 8))


def decayed_and_not(model: nn.Sequential) -> list[dict[str, Any]]:
    """Matrices decay; biases and norms do not."""
    return [
        {"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0},
    ]


def settings_of(optimizer: Optimizer, name: str) -> dict[int, Any]:
    """A setting of each parameter, by its identity."""
    return {id(p): group.get(name) for group in optimizer.param_groups for p in group["params"]}


def loss_of(model: nn.Module) -> torch.Tensor:
    x = torch.linspace(-1, 1, 128).reshape(16, 8)
    return (model(x) - x.roll(1, 1)).square().mean()


@pytest.mark.parametrize("name", NAMES)
def test_get_optimizer_takes_groups_and_descends(name: str) -> None:
    model = network()
    groups, kwargs = decayed_and_not(model), {"lr": RATES.get(name, 0.01), "weight_decay": 0.5}
    before = copy.deepcopy(kwargs)
    optimizer = get_optimizer(name, groups, kwargs)
    assert isinstance(optimizer, Optimizer)
    assert kwargs == before
    decays, rates = settings_of(optimizer, "weight_decay"), settings_of(optimizer, "lr")
    for parameter in model.parameters():
        assert decays[id(parameter)] == (0.1 if parameter.ndim > 1 else 0.0)
        if name != "muon" or parameter.ndim > 1:
            assert rates[id(parameter)] == kwargs["lr"]
    assert len(optimizer.param_groups) == 2, "no more than were given: matrices stand alone"
    needs, losses = loop_needs(optimizer), []
    for step in range(12):
        with needs.step(step):
            loss = loss_of(model)
            loss.backward(create_graph=needs.create_graph)
            needs.after_backward()
            optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert min(losses[-3:]) < 0.9 * losses[0]


@pytest.mark.parametrize("name", NAMES)
def test_a_group_may_be_split_but_is_not_merged(name: str) -> None:
    model = network()
    groups = [
        {"params": model[0].parameters()},
        {"params": model[1:].parameters(), "lr": 0.5, "weight_decay": 0.2},
    ]
    optimizer = get_optimizer(name, groups, {"lr": 0.1, "weight_decay": 0.0})
    assert len(optimizer.param_groups) == (4 if name in SPLIT else 2)
    rates, decays = settings_of(optimizer, "lr"), settings_of(optimizer, "weight_decay")
    for parameter in model[1:].parameters():
        assert (rates[id(parameter)], decays[id(parameter)]) == (0.5, 0.2), "what it says goes first"
    assert rates[id(model[0].weight)] == 0.1
    assert decays[id(model[0].weight)] == decays[id(model[0].bias)] == 0.0


def test_galore_and_muon_treat_matrices_of_given_groups_as_their_own() -> None:
    model = network()
    galore = get_optimizer("galore", [{"params": model.parameters(), "rank": 2, "scale": 0.5}], {"rank": 0.5})
    ranks, scales = settings_of(galore, "rank"), settings_of(galore, "scale")
    assert {p.ndim: (ranks[id(p)], scales[id(p)]) for p in model.parameters()} == {
        2: (2, 0.5),
        1: (None, None),
    }
    muon = get_optimizer("muon", [{"params": model.named_parameters()}], {"adamw_lr": 0.03, "lr": 0.2})
    flags, rates = settings_of(muon, "use_muon"), settings_of(muon, "lr")
    assert {p.ndim: (flags[id(p)], rates[id(p)]) for p in model.parameters()} == {
        2: (True, 0.2),
        1: (False, 0.03),
    }
    none = get_optimizer("muon", [{"params": model.parameters(), "use_muon": False}])
    assert set(settings_of(none, "use_muon").values()) == {False}


def test_get_optimizer_takes_models_parameters_and_pairs_too() -> None:
    model = network()
    for params in (model, model.parameters(), list(model.named_parameters())):
        optimizer = get_optimizer("adamw", params, {"lr": 0.1})
        assert sum(len(group["params"]) for group in optimizer.param_groups) == 6
    single = get_optimizer("sgd", [{"params": model[0].weight, "momentum": 0.5}], {"momentum": 0.9})
    assert single.param_groups[0]["momentum"] == 0.5


def test_get_optimizer_says_what_is_wrong() -> None:
    groups = decayed_and_not(network())
    message = r"optimizer='adamv'; there are: adafactor.*splus.*Did you mean 'adam"
    with pytest.raises(ValueError, match=message):
        get_optimizer("adamv", groups, {})
    with pytest.raises(ValueError, match=r"optimizer.beta: adamw has .*betas"):
        get_optimizer("adamw", groups, {"beta": 0.9})
    with pytest.raises(ValueError, match=r"params\[0\].weight_deca: a group of adamw has"):
        get_optimizer("adamw", [{"params": network().parameters(), "weight_deca": 0.1}], {})
    with pytest.raises(ValueError, match="group 0 has no 'params'"):
        get_optimizer("adamw", [{"parameters": []}], {})
    with pytest.raises(ValueError, match="group 0 holds a str"):
        get_optimizer("adamw", [{"params": ["weight"]}], {})
    with pytest.raises(ValueError, match="need a model, not groups"):
        get_optimizer("adamw", groups, {"layer_decay": 0.5})


@pytest.mark.rows(6)
@pytest.mark.parametrize("name", NAMES)
def test_get_optimizer_quantized(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = decayed_and_not(network())
    if name not in EIGHT_BIT:
        with pytest.raises(ValueError, match=f"{name} has no 8-bit variant"):
            get_optimizer(name, groups, {}, quantized=True)
        return
    if importlib.util.find_spec("bitsandbytes"):
        optimizer = get_optimizer(name, groups, {"lr": 0.1}, quantized=True)
        assert "8bit" in type(optimizer).__name__
        decays = settings_of(optimizer, "weight_decay")
        assert sorted(set(decays.values())) == [0.0, 0.1]
    monkeypatch.setitem(sys.modules, "bitsandbytes.optim", None)
    with pytest.raises(ImportError, match=r"pip install 'tiryns\[quantized\]'"):
        get_optimizer(name, groups, {}, quantized=True)
