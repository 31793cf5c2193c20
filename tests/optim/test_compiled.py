"""Clipping and the steps of torch's optimizers are one graph, whatever the rate, and compute what they do uncompiled."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tests.optim.graphs import Graphs
from tiryns.runner.optim import compiled, get_optimizer
from tiryns.runner.optim.compiled import Compiled, clip_to_limit, compile_step
from tiryns.runner.optim.ema import WeightAverage

GRAPHS = {"adam": 1, "adamw": 1, "adagrad": 1, "rmsprop": 1, "sgd": 2}
"""Graphs of five steps; SGD's first step has no momentum yet."""


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "on_gpu", lambda tensors: bool(tensors))


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4, bias=False))


def optimizer_of(name: str, model: nn.Module) -> Any:
    settings = {"fused": False} if name in ("adam", "adamw") else {}
    return get_optimizer(name, model, {"lr": 0.01, "weight_decay": 0.1, **settings})


def train(model: nn.Module, optimizer: Any, steps: range) -> None:
    for step in steps:
        for group in optimizer.param_groups:
            group["lr"] = 0.01 / (step + 1)
        made = torch.Generator().manual_seed(step)
        model(torch.randn(6, 8, generator=made)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def assert_same(model: nn.Module, other: nn.Module) -> None:
    for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def trained_as_plainly(name: str) -> Optimizer:
    """A compiled optimizer after five steps, whose model is held against one that was trained as it is."""
    plain, model = network(), network()
    train(plain, optimizer_of(name, plain), range(5))
    optimizer = optimizer_of(name, model)
    assert compile_step(optimizer)
    train(model, optimizer, range(5))
    assert_same(model, plain)
    return optimizer


@pytest.mark.rows(1)
@pytest.mark.parametrize("name", GRAPHS)
def test_steps_are_one_graph_at_any_rate(graphs: Graphs, name: str) -> None:
    optimizer = trained_as_plainly(name)
    assert len(graphs.made) == GRAPHS[name]
    assert sum(graphs.calls) == 5
    rates = [group["lr"] for group in optimizer.param_groups]
    assert all(type(rate) is float for rate in rates)
    assert rates == [0.01 / 5] * len(rates), "numbers, as schedules and checkpoints have them"


@pytest.mark.slow
@pytest.mark.rows(1)
@pytest.mark.parametrize("name", GRAPHS)
def test_state_goes_on_compiled_or_not(graphs: Graphs, name: str) -> None:
    plain = network()
    train(plain, optimizer_of(name, plain), range(6))
    model = network()
    state: dict[str, Any] | None = None
    for first in (0, 2, 4):
        optimizer = optimizer_of(name, model)
        if state is not None:
            optimizer.load_state_dict(state)
        if first != 2:
            assert compile_step(optimizer)
        train(model, optimizer, range(first, first + 2))
        state = optimizer.state_dict()
    assert graphs.made
    assert_same(model, plain)


@pytest.mark.slow
def test_another_step_differs(graphs: Graphs) -> None:
    plain, model = network(), network()
    train(plain, optimizer_of("adamw", plain), range(5))
    optimizer = optimizer_of("adamw", model)
    assert compile_step(optimizer)
    train(model, optimizer, range(1, 6))
    with pytest.raises(AssertionError):
        assert_same(model, plain)


@pytest.mark.slow
def test_hooks_run_and_keep_the_average(graphs: Graphs) -> None:
    plain, model = network(), network()
    averages = []
    for each in (plain, model):
        optimizer = optimizer_of("adamw", each)
        average = WeightAverage(optimizer, 0.5, warmup=False, evaluated=True)
        if each is model:
            assert compile_step(optimizer)
        train(each, optimizer, range(4))
        averages.append(average)
    assert sum(graphs.calls) == 4
    with averages[0].in_model(), averages[1].in_model():
        assert_same(model, plain)


def test_schedulers_and_closures_find_a_step(graphs: Graphs) -> None:
    model = network()
    optimizer = optimizer_of("sgd", model)
    assert compile_step(optimizer)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (step + 1))

    def closure() -> Tensor:
        loss: Tensor = model(torch.ones(2, 8)).square().sum()
        loss.backward()
        return loss.detach()

    before = float(closure())
    optimizer.zero_grad()
    assert float(optimizer.step(closure)) == before
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.005
    assert graphs.calls == [1]


@pytest.mark.slow
def test_scaled_gradients_are_unscaled_or_left_out(graphs: Graphs) -> None:
    plain, model = network(), network()
    for each in (plain, model):
        optimizer = optimizer_of("adamw", each)
        if each is model:
            assert compile_step(optimizer)
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        for factor in (1.0, float("inf"), 2.0):
            scaler.scale((each(torch.ones(2, 8)) * factor).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    assert graphs.calls == [2], "gradients that are not numbers change nothing"
    assert_same(model, plain)


def test_other_and_fused_steps_and_other_devices_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("lamb", "adafactor", "muon", "adamw"):
        optimizer = get_optimizer(name, network(), {"fused": True} if name == "adamw" else {})
        assert not compile_step(optimizer)
        assert "step" not in vars(optimizer)
    monkeypatch.undo()
    assert not compile_step(optimizer_of("adamw", network()))


@pytest.mark.parametrize("limit", [0.5, 1e6, float("inf")])
def test_clipping_is_that_of_torch_in_one_graph(graphs: Graphs, limit: float) -> None:
    clip, plain, model = Compiled(clip_to_limit, "clipping"), network(), network()
    for step in range(3):
        made = torch.randn(6, 8, generator=torch.Generator().manual_seed(step))
        for each in (plain, model):
            each.zero_grad()
            each(made).square().sum().backward()
        norm = torch.nn.utils.clip_grad_norm_(plain.parameters(), limit)
        with torch.no_grad():
            torch.testing.assert_close(clip([p.grad for p in model.parameters()], limit), norm)
        for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(ours.grad, theirs.grad)
    assert graphs.calls == [3]


def test_clipping_looks_at_no_value() -> None:
    gradients = [torch.empty(3, 4, device="meta"), torch.empty(5, device="meta")]
    assert clip_to_limit(gradients, 1.0).is_meta


def test_what_cannot_be_compiled_is_told_once(graphs: Graphs, caplog: pytest.LogCaptureFixture) -> None:
    def look(x: Tensor) -> Tensor:
        return x if float(x.sum()) else 2 * x

    caplog.set_level("INFO", logger="tiryns")
    run = Compiled(look, "looking")
    assert [float(run(torch.tensor(value))) for value in (3.0, 4.0)] == [3.0, 4.0]
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("looking: not compiled, as torch cannot (")
    assert not run.works


def test_errors_are_not_taken_for_failed_compilation(graphs: Graphs) -> None:
    def fails(x: Tensor) -> Tensor:
        return x @ torch.ones(5)

    with pytest.raises(RuntimeError, match="size"):
        Compiled(fails, "failing")(torch.ones(3))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adamw", "sgd"])
def test_compiled_for_the_processor_it_trains_alike(name: str) -> None:
    torch._dynamo.reset()
    trained_as_plainly(name)
