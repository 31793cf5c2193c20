"""With `module.cuda_graphs=true` a run computes what it does without, and says in one line what it needs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.conftest import TINY
from tests.optim.graphs import Graphs
from tests.runs.test_train import assert_bitwise, continued, losses, weights
from tests.support.precision import rounding
from tiryns import assemble, compose
from tiryns.runner.config.checks import check_config
from tiryns.runner.loop.resolved import resolve
from tiryns.runner.modules import training
from tiryns.runner.run.folder import Run

Runner = Callable[..., Run]
SHORT = [
    "trainer.max_steps=6", "trainer.validate_every=3", "model.dropout=0.0", "data.micro_batch_tokens=200",
    "checkpoint.every_steps=3",
]  # fmt: skip
"""Steps of two or three micro-batches, with validation between them."""
GRAPHED = ["module.compile_model=true", "module.cuda_graphs=true"]


def test_a_run_in_fixed_shapes_is_that_without(
    graphs: Graphs, run_here: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    plain = run_here(*SHORT, folder="plain")
    assert not graphs.made
    assert "a CPU launches no graphs" not in caplog.text
    run = run_here(*SHORT, *GRAPHED, folder="graphed")
    assert "module.cuda_graphs=true: a CPU launches no graphs" in caplog.text
    assert losses(run) == pytest.approx(losses(plain), rel=rounding(1e-5, 1e-2))
    assert (len(graphs.made), graphs.modes) == (2, ["reduce-overhead"] * 2), "encoder and head"
    assert graphs.calls[0] == graphs.calls[1] > 6, "several micro-batches in a step"


@pytest.mark.slow
def test_a_resumed_run_is_the_undisturbed_one_and_may_go_on_without(graphs: Graphs, run_here: Runner) -> None:
    whole = run_here(*SHORT, *GRAPHED)
    continued(whole, 3, "copy")
    resumed = run_here(*SHORT, *GRAPHED, folder="copy")
    assert_bitwise(weights(whole, 6), weights(resumed, 6))
    continued(whole, 3, "without")
    without = run_here(*SHORT, folder="without")
    assert losses(without) == pytest.approx(losses(whole), rel=rounding(1e-5, 1e-2))
    other = run_here(*SHORT, *GRAPHED, "seed=7", folder="other")
    assert losses(other) != pytest.approx(losses(whole), rel=1e-2)


@pytest.mark.slow
def test_nothing_that_a_graph_has_made_is_read_after_the_next_replay(
    graphs: Graphs, run_here: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CPU has no CUDA graphs: here the results of a micro-batch are overwritten when the next begins."""
    plain = run_here(*SHORT, *GRAPHED, folder="plain")
    made: list[Tensor] = []
    backend, keep = graphs.backend, training.keep_gradients
    num_overwritten = 0

    def noting(graph: Any, inputs: Any, mode: str | None = None) -> Callable[..., Any]:
        run = backend(graph, inputs, mode)

        def noted(*arguments: Any) -> Any:
            found = run(*arguments)
            if mode is not None:
                made.extend(each.detach() for each in found)
            return found

        return noted

    def keeping(parameters: Any, kept: Any) -> None:
        parameters = list(parameters)
        made.extend(p.grad for p in parameters if p.grad is not None and p not in kept)
        keep(parameters, kept)

    def overwrite() -> None:
        nonlocal num_overwritten
        for tensor in made:
            tensor.fill_(torch.nan)
        num_overwritten += len(made)
        made.clear()

    monkeypatch.setattr("tiryns.runner.optim.compiled.BACKEND", noting)
    monkeypatch.setattr(training, "keep_gradients", keeping)
    monkeypatch.setattr(torch.compiler, "cudagraph_mark_step_begin", overwrite)
    torch._dynamo.reset()
    run = run_here(*SHORT, *GRAPHED, folder="overwritten")
    assert num_overwritten > 100
    assert losses(run) == losses(plain)
    assert_bitwise(weights(run, 6), weights(plain, 6))


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (["module.compile_model=false"], "module.compile_model=true"),
        (["module.compile_model=auto"], "module.compile_model=true"),
        (["data.layout=padded"], "packed rows"),
        (["data.micro_batch_tokens=null"], "a number of data.micro_batch_tokens"),
        (["trainer=fsdp"], "the whole model on each device"),
    ],
)
def test_what_is_missing_is_told_before_data_is_read(words: list[str], needed: str) -> None:
    check_config(compose(*GRAPHED))
    with pytest.raises(ValueError, match=r"^module.cuda_graphs=true needs " + needed):
        check_config(compose(*GRAPHED, *words))
    check_config(compose(*words))


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (["model.dropout=0.1"], "a model without dropout"),
        (["model.architecture=deberta-v2"], "packed rows"),
        (["objective=clm"], "masked language modelling"),
        (["trainer.accelerator=gpu", "trainer.precision=32-true"], "flash attention"),
    ],
)
def test_what_model_and_machine_lack_is_told(text_file: Path, words: list[str], needed: str) -> None:
    def resolved(*words: str) -> Any:
        config = compose(*TINY, f"data.source={text_file}", "model.dropout=0.0", *words)
        made = assemble(config)
        return resolve(config, config, {}, made.data, made.module)

    with pytest.raises(ValueError, match=r"^module.cuda_graphs=true needs " + needed):
        resolved(*GRAPHED, *words)
    resolved(*words)
    assert resolved(*GRAPHED)["compile"]
