"""What `@optimizer()` makes of a function, and that an option is known by its name as soon as it is registered."""

import inspect
import operator
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import pytest
import torch
from torch.optim import NAdam, Optimizer

import tiryns.conf.optimizer.elementwise
from tests.optim.tiny import NAMES, tiny_bert
from tiryns.conf.registry import OPTIONS
from tiryns.runner import optim
from tiryns.runner.optim import get_optimizer
from tiryns.runner.optim.shared_settings import Pair, optimizer


@optimizer()
def nadam(groups: list[dict[str, Any]], betas: Pair) -> Optimizer:
    """torch's NAdam."""
    return NAdam(groups, betas=betas)


@dataclass
class Option(tiryns.conf.optimizer.elementwise.Optimizer):
    """torch's NAdam."""

    _target_: str = f"{__name__}.nadam"
    lr: float = 0.25
    betas: list[float] = field(default_factory=lambda: [0.8, 0.9])


def test_a_registered_optimizer_is_made_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPTIONS["optimizer"], "nadam", Option)
    overrides = [{"pattern": "*.bias", "lr_scale": 0.5}]
    made = get_optimizer("nadam", tiny_bert(), {"weight_decay": 0.1, "overrides": overrides})
    assert isinstance(made, NAdam)
    assert made.defaults["betas"] == (0.8, 0.9)
    found = {group["name"]: (group["lr"], group["weight_decay"]) for group in made.param_groups}
    rates = {"decay": (0.25, 0.1), "embeddings": (0.25, 0.0), "no_decay": (0.25, 0.0)}
    assert found == {**rates, "no_decay/*.bias": (0.125, 0.0)}
    message = r"nadam has no 8-bit variant; .* adagrad, adam, adamw, lamb, lars, lion"
    with pytest.raises(ValueError, match=message):
        get_optimizer("nadam", tiny_bert(), quantized=True)
    with pytest.raises(ValueError, match="betas must be two numbers"):
        get_optimizer("nadam", tiny_bert(), {"betas": [0.8, 0.9, 0.9]})
    with pytest.raises(AttributeError):
        _ = optim.nadam  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="of the optimizer adamw, this run has nadam"):
        made.load_state_dict(get_optimizer("adamw", tiny_bert()).state_dict())


CHANGES: dict[type, Callable[[Any], object]] = {
    bool: operator.not_, int: lambda count: count + 1, list: lambda betas: [0.5 * beta for beta in betas],
    float: lambda value: 0.5 * value + 0.1 if value < 1 else value + 1,
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_reaches_its_optimizer(name: str) -> None:
    def state(**settings: Any) -> str:
        made = get_optimizer(name, model, settings)
        groups = [{**group, "params": None} for group in made.param_groups]
        return repr([groups, *((n, v) for n, v in vars(made).items() if isinstance(v, int | float | str))])

    model, shared = tiny_bert(), {f.name for f in fields(tiryns.conf.optimizer.elementwise.Optimizer)}
    usual = state()
    for setting, value in vars(OPTIONS["optimizer"][name]()).items():
        if setting not in shared and type(value) in CHANGES:
            assert state(**{setting: CHANGES[type(value)](value)}) != usual, setting


def test_every_setting_is_a_named_parameter_without_a_default() -> None:
    shared = [f.name for f in fields(tiryns.conf.optimizer.elementwise.Optimizer) if f.name != "_target_"]
    for function, own in ((nadam, ["betas"]), (optim.sgd, ["momentum", "nesterov"])):
        parameters = inspect.signature(function).parameters
        assert [*parameters] == ["model", *shared, *own]
        assert {p.default for p in parameters.values()} == {inspect.Parameter.empty}
    with pytest.raises(TypeError, match="unexpected keyword argument 'momentun'"):
        optim.sgd(tiny_bert(), momentun=0.9, **dict.fromkeys([*shared, "momentum", "nesterov"], 0))


def test_a_given_group_called_matrices_is_no_hidden_matrix() -> None:
    vectors = [{"params": [torch.nn.Parameter(torch.ones(3))], "name": "matrices"}]
    (group,) = get_optimizer("muon", vectors).param_groups
    assert (group["use_muon"], group["name"]) == (False, "others/matrices")
