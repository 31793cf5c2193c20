"""A LightningModule and a LightningDataModule of the user's own are trained by Lightning's loop."""

import csv
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch import Trainer
from transformers import AutoModelForMaskedLM

from tests.config.conftest import PLAIN, Tiryns, assert_one_line, assert_same, last_weights, own, run_in
from tests.config.plain_components import Line
from tiryns.runner.cli.models.consolidate import consolidate
from tiryns.runner.loop.lightning_loop import LightningLoop


def test_module_and_data_of_lightning(tiny: Tiryns, tmp_path: Path) -> None:
    words = ["trainer.max_steps=20", "trainer.validate_every=5", "trainer.validation_batches=null", PLAIN]
    done = tiny({"data": own("Points"), "module": own("Line")}, *words, text=False)
    run = run_in(tmp_path, done)
    (said,) = [line for line in done.stderr.splitlines() + done.stdout.splitlines() if "own loop" in line]
    assert said.startswith("Points and Line: trained by Lightning's own loop")
    assert "a resumed run may repeat some" in said
    results = run.status["results"]
    assert results["objective"] == results["val_loss"] < 0.5
    rows = list(csv.DictReader((run.path / "metrics.csv").open()))
    assert {"train_loss", "val_loss"} <= set(rows[0])
    assert (run.path / "report.html").exists()
    assert not (run.path / "model").exists()
    assert not (run.path / "order.txt").exists()
    assert (run.checkpoint_dir / "best.ckpt").exists()
    with pytest.raises(ValueError, match="Line: load its checkpoint with load_from_checkpoint"):
        consolidate(run.path, tmp_path / "model", [PLAIN])
    longer = tiny({"data": own("Points"), "module": own("Line")}, *words, "trainer.max_steps=30",
                  "resume=out", text=False, outputs="longer")  # fmt: skip
    assert run_in(tmp_path, longer, "longer").status["step"] == 30


@pytest.mark.slow
def test_epochs_of_own_data_are_its_own(tiny: Tiryns, tmp_path: Path) -> None:
    options = {"data": own("Points", count=32), "module": own("Line")}
    words = ["trainer.max_steps=-1", PLAIN]
    run = run_in(tmp_path, tiny(options, *words, "trainer.max_epochs=3", text=False))
    assert run.status["step"] == 12
    done = tiny(options, *words, "trainer.max_epochs=1.5", text=False, outputs="part")
    assert_one_line(done, "trainer.max_epochs=1.5", "whole")


@pytest.mark.slow
def test_own_module_with_the_configs_optimizer(tiny: Tiryns, tmp_path: Path) -> None:
    options = {
        "data": own("Points"),
        "module": own("GroupsLine"),
        "optimizer": {"_target_": "torch.optim.SGD", "lr": 0.1},
        "scheduler": {"_target_": "torch.optim.lr_scheduler.CosineAnnealingLR"},
    }
    run = run_in(tmp_path, tiny(options, PLAIN, text=False))
    state = torch.load(run.checkpoint_dir / "last.ckpt", weights_only=True)
    assert state["lr_schedulers"][0]["T_max"] == 4
    assert state["optimizer_states"][0]["param_groups"][0]["lr"] == pytest.approx(0, abs=1e-9)


@pytest.mark.slow
def test_model_in_an_own_module_is_exported(tiny: Tiryns, tmp_path: Path) -> None:
    run = run_in(tmp_path, tiny({"data": own("Points"), "module": own("Encoder")}, PLAIN, text=False))
    assert AutoModelForMaskedLM.from_pretrained(run.path / "model").config.hidden_size == 8


@pytest.mark.rows(1)
@pytest.mark.parametrize("validate_every", [3, 0, 2])
@pytest.mark.parametrize("begun", [["trainer.max_steps=3", "checkpoint.every_steps=0"], []])
def test_own_module_on_our_batches_resumes_exactly(
    tiny: Tiryns, tmp_path: Path, validate_every: int, begun: list[str]
) -> None:
    """Also from the end of a shorter run."""
    options = {"module": own("ShareModule")}
    words = [
        PLAIN, "trainer.max_steps=6", f"trainer.validate_every={validate_every}", "checkpoint.every_steps=3",
        "checkpoint.keep_last=9",
    ]  # fmt: skip
    whole = run_in(tmp_path, tiny(options, *words, outputs="whole"), "whole")
    first = run_in(tmp_path, tiny(options, *words, *begun, outputs="first"), "first") if begun else whole
    point = f"resume={first.checkpoint_dir}/step-00000003.ckpt"
    half = run_in(tmp_path, tiny(options, *words, point, outputs="half"), "half")
    assert half.status["step"] == 6
    rows = [(run.path / "metrics.csv").read_text().splitlines()[1:] for run in (whole, half)]
    steps = [[int(line.split(",")[0]) for line in lines] for lines in rows]
    assert sorted(set(steps[0])) == sorted(set(steps[1])), "as many steps, and no row at a step of its own"
    assert_same(last_weights(half), last_weights(whole))
    assert AutoModelForMaskedLM.from_pretrained(whole.path / "model").config.hidden_size == 32


@pytest.mark.parametrize("ours", [True, False])
def test_global_batches_are_not_rounded_and_not_accumulated(ours: bool) -> None:
    trainer = Trainer(precision="bf16-true", accelerator="cpu", logger=False, enable_checkpointing=False)
    trainer.datamodule = SimpleNamespace(serves_global_batches=ours)  # type: ignore[attr-defined]
    LightningLoop().setup(trainer, Line(), "fit")
    with (plugin := trainer.precision_plugin).forward_context():
        label, new = plugin.convert_input(torch.tensor(100.7)), torch.tensor(100.7)
    assert label.dtype == new.dtype == (torch.float32 if ours else torch.bfloat16)
    trainer.accumulate_grad_batches = 2
    with pytest.raises(ValueError, match="a step takes one global batch") if ours else nullcontext():
        LightningLoop().setup(trainer, Line(), "fit")


@pytest.mark.slow
def test_plan_of_an_own_module_trains_nothing(tiny: Tiryns, tmp_path: Path) -> None:
    done = tiny({"data": own("Points"), "module": own("Line")}, PLAIN, "mode=inspect", text=False)
    assert done.returncode == 0, done.stderr
    assert "nothing was trained" in done.stdout
    assert "known only as they are read" in done.stdout
    cycle = {"_target_": "torch.optim.lr_scheduler.OneCycleLR", "max_lr": 1e-3}
    done = tiny({"scheduler": cycle}, "mode=inspect", outputs="other")
    assert "learning rate: OneCycleLR tells it only step by step" in done.stdout
    assert not (tmp_path / "out").exists()
