"""Whole runs in bf16-mixed with dropout, whatever the machine has and the other tests are run in."""

from typing import Any

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from tests.runs.test_train import Train, assert_same_run, continued, losses, weights
from tiryns.runner import train
from tiryns.runner.loop.assembly import assemble

BF16, FP32 = "trainer.precision=bf16-mixed", "trainer.precision=32-true"
SHORT = [
    "model.dropout=0.1", "trainer.max_steps=6", "trainer.validate_every=3", "checkpoint.every_steps=3",
    "checkpoint.keep_last=9",
]  # fmt: skip


@pytest.mark.rows(1)
@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_pretraining_goes_as_in_fp32_and_resumes_bitwise(run_here: Train, layout: str) -> None:
    short = [*SHORT, f"data.layout={layout}", "data.num_workers=1"]
    run, exact = run_here(*short, BF16, folder="bf16"), run_here(*short, FP32, folder="fp32")
    assert losses(run) != losses(exact), "it was trained in bf16"
    assert losses(run) == pytest.approx(losses(exact), rel=2e-3), "of the same dropout"
    continued(run, 3, "resumed")
    resumed = run_here(*short, BF16, folder="resumed")
    assert_same_run(run, resumed, 6)


@pytest.mark.slow
@pytest.mark.rows(1)
@pytest.mark.parametrize("optimizer", ["adamw", "muon", "shampoo", "soap", "splus"])
def test_update_is_outside_autocast(run_here: Train, optimizer: str) -> None:
    """Shampoo, SOAP and SPlus multiply matrices of fp32, which autocast would make bf16."""
    seen: list[bool] = []
    hook = register_optimizer_step_pre_hook(lambda *_: seen.append(torch.is_autocast_enabled("cpu")))
    try:
        run_here(f"optimizer={optimizer}", BF16, "trainer.max_steps=3", "trainer.validate_every=0")
    finally:
        hook.remove()
    assert seen == [False] * 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "types"), [(FP32, ("bfloat16", "bfloat16")), (BF16, ("bfloat16", "float32"))]
)
def test_weights_of_a_run_keep_the_types_that_they_began_with(
    run_here: Train, monkeypatch: pytest.MonkeyPatch, precision: str, types: tuple[str, str]
) -> None:
    """Runs of before trained the types of a file, which may be another than that of a new head, and noted none."""
    encoder, head = (getattr(torch, name) for name in types)

    def as_before(*arguments: Any) -> Any:
        parts = assemble(*arguments)
        parts.model.to(head).pretrained.base_model.to(encoder)
        return parts

    short, types_noted = [*SHORT, precision, "optimizer.lr=2e-4"], " and ".join(sorted({*types}))
    with monkeypatch.context() as patch:
        patch.setattr(train, "assemble", as_before)
        whole = run_here(*short)
    assert {str(t.dtype)[6:] for t in weights(whole, 6).values()} == {*types}
    for name, noted in (("noted", True), ("unnoted", False)):
        run = continued(whole, 3, name)
        file = run.checkpoint_dir / "step-00000003.ckpt"
        checkpoint = torch.load(file, weights_only=True)
        assert checkpoint["resolved"]["weights"] == types_noted
        if not noted:
            del checkpoint["resolved"]["weights"]
            torch.save(checkpoint, file)
        resumed = run_here(*short, folder=name)
        assert_same_run(whole, resumed, 6)
        assert resumed.status["resolved"]["weights"] == types_noted


@pytest.mark.slow
def test_a_branch_in_another_precision_has_weights_of_its_own(run_here: Train) -> None:
    start = run_here(*SHORT, "trainer.precision=bf16-true").checkpoint_dir / "step-00000003.ckpt"
    assert {t.dtype for t in torch.load(start, weights_only=True)["state_dict"].values()} == {torch.bfloat16}
    branch = run_here(*SHORT, FP32, f"resume={start}", folder="branch")
    assert {t.dtype for t in weights(branch, 6).values()} == {torch.float32}
    assert branch.status["resolved"]["weights"] == "float32"


def test_half_precision_adds_up_losses_and_computes_positions_in_fp32(run_here: Train) -> None:
    cut = ["model.architecture=crammed_bert", "sampler.global_batch_size=64", "data.micro_batch_size=1"]
    short = [*cut, "trainer.max_steps=1", "trainer.validate_every=0"]
    half, exact = (run_here(*short, f"trainer.precision={p}", folder=p) for p in ("bf16-true", "32-true"))
    assert losses(half) == pytest.approx(losses(exact), rel=2e-3)
