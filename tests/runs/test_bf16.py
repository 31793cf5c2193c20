"""Whole runs in bf16-mixed with dropout, whatever the machine has and the other tests are run in."""

from pathlib import Path

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from tests.conftest import TINY, Command
from tests.launch.test_kill import only_run
from tests.runs.test_train import Run, assert_bitwise, continued, losses, rows, weights
from tiryns.runner.run import audit

BF16, FP32 = "trainer.precision=bf16-mixed", "trainer.precision=32-true"
SHORT = [
    "model.dropout=0.1", "trainer.max_steps=6", "trainer.validate_every=3", "checkpoint.every_steps=3",
    "checkpoint.keep_last=9",
]  # fmt: skip


@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_pretraining_goes_as_in_fp32_and_resumes_bitwise(run_here: Run, layout: str) -> None:
    short = [*SHORT, f"data.layout={layout}", "data.num_workers=1"]
    run, exact = run_here(*short, BF16, folder="bf16"), run_here(*short, FP32, folder="fp32")
    assert losses(run) != losses(exact), "it was trained in bf16"
    assert losses(run) == pytest.approx(losses(exact), rel=2e-3), "of the same dropout"
    continued(run, 3, "resumed")
    resumed = run_here(*short, BF16, folder="resumed")
    assert_bitwise(weights(run, 6), weights(resumed, 6))
    assert rows(run) == rows(resumed)


@pytest.mark.slow
def test_two_processes_train_as_one(tiryns: Command, run_here: Run, tmp_path: Path, text_file: Path) -> None:
    short = [*SHORT, BF16, "data.layout=packed"]
    cut = ["trainer.devices=2", "data.micro_batch_tokens=100", "data.num_workers=1"]
    tiryns(*TINY, f"data.source={text_file}", *short, *cut)
    two, one = only_run(tmp_path / "outputs"), run_here(*short)
    assert audit.compare(one.path, two.path) is None
    assert losses(two) == pytest.approx(losses(one), rel=1e-3)


@pytest.mark.parametrize("optimizer", ["adamw", "muon", "shampoo", "soap", "splus"])
def test_update_is_outside_autocast(run_here: Run, optimizer: str) -> None:
    """Shampoo, SOAP and SPlus multiply matrices of fp32, which autocast would make bf16."""
    seen: list[bool] = []
    hook = register_optimizer_step_pre_hook(lambda *_: seen.append(torch.is_autocast_enabled("cpu")))
    try:
        run_here(f"optimizer={optimizer}", BF16, "trainer.max_steps=3", "trainer.validate_every=0")
    finally:
        hook.remove()
    assert seen == [False] * 3
