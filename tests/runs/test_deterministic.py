"""`trainer.deterministic=true`, and what else changes no bit of a run."""

from collections.abc import Callable

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from tests.runs.test_train import assert_same_run, losses
from tiryns.runner.run import audit
from tiryns.runner.run.folder import Run

SHORT = ["trainer.max_steps=4", "trainer.validate_every=0", "model.dropout=0.1", "trainer.precision=32-true"]


def test_deterministic_algorithms_and_loader_workers_change_no_bit(run_here: Callable[..., Run]) -> None:
    seen: list[bool] = []
    plain = run_here(*SHORT, folder="plain")
    hook = register_optimizer_step_pre_hook(
        lambda *_: seen.append(torch.are_deterministic_algorithms_enabled())
    )
    try:
        same = run_here(*SHORT, "trainer.deterministic=true", "data.num_workers=2", folder="same")
    finally:
        hook.remove()
        torch.use_deterministic_algorithms(False)
    assert seen == [True] * 4
    assert_same_run(plain, same, 4)
    other = run_here(*SHORT, "seed=43", folder="other")
    assert losses(other) != losses(plain)


@pytest.mark.slow
def test_single_samples_train_like_padded_rows(run_here: Callable[..., Run]) -> None:
    padded, single = (
        run_here(*SHORT, f"data.layout={layout}", folder=layout) for layout in ("padded", "single")
    )
    assert audit.compare(padded.path, single.path) is None
    assert losses(single) == pytest.approx(losses(padded), rel=1e-5)


@pytest.mark.slow
def test_compiled_run_is_that_of_a_plain_one_without_dropout(run_here: Callable[..., Run]) -> None:
    short = [*SHORT, "model.dropout=0.0"]
    plain = run_here(*short, folder="plain")
    compiled = run_here(*short, "module.compile_model=true", folder="compiled")
    assert audit.compare(plain.path, compiled.path) is None
    assert losses(compiled) == pytest.approx(losses(plain), rel=1e-5)
