"""`module.ema`: the average is its formula, resumes bit for bit, and training does not depend on it."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.optim.test_optimizers import equal, through_a_file
from tests.optim.tiny import VARIANTS, make, tiny_bert, train
from tiryns.runner.optim import get_optimizer, loop_needs
from tiryns.runner.optim.ema import WeightAverage, decay_of
from tiryns.runner.optim.hooks import exported_weights

NAME = "bert.encoder.layer.0.output.dense.weight"


def averaged(name: str, quantized: bool, model: Any, warmup: bool = False, evaluated: bool = True) -> Any:
    optimizer = make(name, quantized, model)
    WeightAverage(optimizer, 0.9, warmup, evaluated)
    return optimizer


@pytest.mark.parametrize("warmup", [False, True])
def test_the_average_is_its_formula_and_training_goes_on_without_it(warmup: bool) -> None:
    model, alone = tiny_bert(), tiny_bert()
    optimizer = averaged("adamw", False, model, warmup)
    weight, trained = model.get_parameter(NAME), []
    expected = weight.detach().double().numpy()
    for n in range(1, 6):
        train(model, optimizer, range(n - 1, n))
        trained.append(weight.detach().clone())
        d = min(0.9, (1 + n) / (10 + n)) if warmup else 0.9
        expected = d * expected + (1 - d) * trained[-1].double().numpy()
        for _ in range(2):
            with loop_needs(optimizer).evaluation():
                assert np.abs(weight.detach().double().numpy() - expected).max() < 1e-7
                assert not torch.equal(weight, trained[-1])
        assert torch.equal(weight, trained[-1])
    train(alone, make("adamw", False, alone), range(5))
    assert equal(model, alone)


@pytest.mark.rows(3)
@pytest.mark.parametrize(("name", "quantized"), [v for v in VARIANTS if v.values[0] != "splus"])
def test_every_optimizer_resumes_its_average_bitwise(name: str, quantized: bool) -> None:
    model = tiny_bert()
    optimizer = averaged(name, quantized, model, warmup=True)
    train(model, optimizer, range(2))
    saved = through_a_file([model.state_dict(), optimizer.state_dict()])
    train(model, optimizer, range(2, 4))
    resumed = tiny_bert(seed=1)
    second = averaged(name, quantized, resumed, warmup=True)
    resumed.load_state_dict(saved[0])
    second.load_state_dict(saved[1])
    train(resumed, second, range(2, 4))
    assert equal(model, resumed)
    with loop_needs(optimizer).evaluation(), loop_needs(second).evaluation():
        assert equal(model, resumed)


@pytest.mark.parametrize("fused", [False, True])
def test_step_that_overflows_decays_no_weight_and_leaves_the_average(fused: bool) -> None:
    weight, scaler = torch.nn.Parameter(torch.ones(2, 2)), torch.amp.GradScaler("cpu")
    settings, states = {"weight_decay": 0.5, "cautious_decay": True, "fused": fused}, []
    optimizer = get_optimizer("adamw", [weight], settings)
    WeightAverage(optimizer, 0.5, warmup=False, evaluated=False)
    for factor in (1.0, np.inf):
        scaler.scale((weight * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        states.append([weight.tolist(), optimizer.state[weight]["average"].tolist()])
    assert states[0] == states[1]


def test_the_average_of_weights_in_16_bits_stays_in_32(tmp_path: Any) -> None:
    model = tiny_bert().bfloat16()
    optimizer = averaged("sgd", False, model)
    train(model, optimizer, range(2))
    weight = model.get_parameter(NAME)
    average = optimizer.state[weight]["average"].clone()
    assert average.dtype == torch.float32
    assert not torch.equal(average, average.bfloat16().float())
    optimizer.load_state_dict(through_a_file(optimizer.state_dict()))
    assert torch.equal(optimizer.state[weight]["average"], average)


def test_a_run_without_an_average_leaves_that_of_its_checkpoint_behind() -> None:
    model = tiny_bert()
    first, plain = averaged("adamw", False, model), get_optimizer("adamw", model)
    train(model, first, range(2))
    plain.load_state_dict(through_a_file(first.state_dict()))
    assert {*plain.state[model.get_parameter(NAME)]} == {"step", "exp_avg", "exp_avg_sq"}


def test_what_is_evaluated_and_exported_is_chosen() -> None:
    model = tiny_bert()
    optimizer = averaged("adamw", False, model, evaluated=False)
    train(model, optimizer, range(2))
    weight = model.get_parameter(NAME)
    trained = weight.detach().clone()
    with loop_needs(optimizer).evaluation(), exported_weights(optimizer, None):
        assert torch.equal(weight, trained)
    with exported_weights(optimizer, "ema"):
        assert not torch.equal(weight, trained)
    with exported_weights(averaged("adamw", False, model), "raw"):
        assert torch.equal(weight, trained)
    with pytest.raises(ValueError, match=r"--weights ema: the run keeps no average.*module\.ema=0\.999"):
        exported_weights(get_optimizer("adamw", model), "ema")
    with pytest.raises(ValueError, match=r"module\.ema: splus evaluates an average of its own"):
        averaged("splus", False, model)


def test_parameters_without_gradients_and_later_ones_are_averaged_from_their_first_update() -> None:
    early, late = (torch.nn.Parameter(torch.ones(1)) for _ in range(2))
    optimizer = torch.optim.Adam([early, late], lr=0.5)
    average = WeightAverage(optimizer, 0.5, False, True)
    early.sum().backward()
    optimizer.step()
    with average.in_model():
        assert (early.item(), late.item()) == (pytest.approx(0.75), 1.0)
    (early + late).sum().backward()
    optimizer.step()
    with average.in_model():
        assert late.item() == pytest.approx(0.75)


def test_a_half_life_is_a_decay() -> None:
    assert decay_of(0.9, None) == 0.9
    decay = decay_of(None, 1000)
    assert decay is not None
    assert decay**1000 == pytest.approx(0.5)
    assert decay_of(None, None) is None
    with pytest.raises(ValueError, match="two names of one thing"):
        decay_of(0.9, 10)
