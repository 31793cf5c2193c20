"""With `module.compile_model=true` a run compiles clipping and the optimizer's step as well, where it is on a GPU."""

from collections.abc import Callable

import pytest

from tests.optim.graphs import Graphs
from tests.runs.test_train import losses
from tiryns.runner.modules import training
from tiryns.runner.optim import compiled
from tiryns.runner.run.folder import Run

Runner = Callable[..., Run]
SHORT = [
    "trainer.max_steps=6", "trainer.validate_every=0", "trainer.precision=32-true", "model.dropout=0.0",
    "data.micro_batch_tokens=4000",
]  # fmt: skip
"""Steps of one micro-batch each."""


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compiled on a GPU is compiled here."""
    for module in (training, compiled):
        monkeypatch.setattr(module, "on_gpu", bool)


@pytest.mark.slow
@pytest.mark.usefixtures("as_on_a_gpu")
def test_a_run_compiles_head_clipping_and_step(graphs: Graphs, run_here: Runner) -> None:
    plain = run_here(*SHORT, "optimizer.fused=false", folder="plain")
    assert not graphs.made
    run = run_here(*SHORT, "optimizer.fused=false", "module.compile_model=true", folder="compiled")
    assert losses(run) == pytest.approx(losses(plain), rel=1e-5)
    named = {name: graphs.calls_with(name) for name in ("cross_entropy", "_foreach_norm", "addcdiv")}
    assert named == {"cross_entropy": 6, "_foreach_norm": 6, "addcdiv": 6}, "head, clipping, step"
    assert run.status["resolved"]["compile"]


def test_a_cpu_compiles_the_head_alone(graphs: Graphs, run_here: Runner) -> None:
    run_here(*SHORT, "optimizer.fused=false", "module.compile_model=true", folder="compiled")
    assert graphs.calls_with("cross_entropy") == sum(graphs.calls) == 6


@pytest.mark.slow
@pytest.mark.usefixtures("as_on_a_gpu")
def test_steps_of_the_hessian_are_not_compiled(graphs: Graphs, run_here: Runner) -> None:
    words = [*SHORT, "optimizer=sophiah", "optimizer.update_period=3"]
    plain = run_here(*words, folder="plain")
    run = run_here(*words, "module.compile_model=true", folder="compiled")
    assert losses(run) == pytest.approx(losses(plain), rel=1e-4)
    assert graphs.calls_with("cross_entropy") == graphs.calls_with("_foreach_norm") == 4, "of 6 steps"
