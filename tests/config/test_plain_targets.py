"""Every group takes a plain class of torch, Lightning or transformers, from a YAML option and on the command line."""

import csv
import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from tests.config.conftest import HOME, PLAIN, Options, Tiryns, assert_same, last_weights, rates_of, run_in
from tests.support.in_process import Done


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    ("node", "groups"),
    [
        ({"_target_": "torch.optim.AdamW", "lr": 1e-3}, {"all": 0.01}),
        ({"_target_": "torch.optim.AdamW", "_partial_": True, "lr": 1e-3, "weight_decay": 0.1},
         {"decay": 0.1, "embeddings": 0.0, "no_decay": 0.0}),
        ({"_target_": "torch.optim.SGD", "lr": 1e-3, "decay_embeddings": True, "weight_decay": 0.2},
         {"decay": 0.2, "embeddings": 0.2, "no_decay": 0.0}),
        ({"_target_": "pytorch_optimizer.ScheduleFreeAdamW", "lr": 1e-3}, {"all": 0.0}),
    ],
)  # fmt: skip
def test_optimizer(tiny: Tiryns, tmp_path: Path, node: Options, groups: dict[str, float]) -> None:
    run = run_in(tmp_path, tiny({"optimizer": node}))
    saved = torch.load(run.checkpoint_dir / "last.ckpt", weights_only=True)["optimizer_states"][0]
    assert {g["name"]: g["weight_decay"] for g in saved["param_groups"]} == groups
    assert set(json.loads((run.path / "parameter_groups.json").read_text())) == set(groups)


SCHEDULERS: list[Options] = [
    {"_target_": "torch.optim.lr_scheduler.OneCycleLR", "max_lr": 3e-3},
    {"_target_": "torch.optim.lr_scheduler.CosineAnnealingLR", "_partial_": True},
    {"_target_": "torch.optim.lr_scheduler.MultiStepLR", "milestones": [2, 5], "gamma": 0.5},
    {"_target_": "torch.optim.lr_scheduler.CyclicLR", "base_lr": 1e-4, "max_lr": 3e-3, "step_size_up": 3},
    {"_target_": "transformers.get_cosine_schedule_with_warmup", "num_warmup_steps": 2},
    {"_target_": "transformers.get_wsd_schedule", "num_warmup_steps": 1, "num_decay_steps": 2},
]


@pytest.mark.slow
@pytest.mark.rows(1)
@pytest.mark.parametrize("node", SCHEDULERS, ids=lambda node: node["_target_"].rpartition(".")[2])
def test_scheduler_resumes_exactly(tiny: Tiryns, tmp_path: Path, node: Options) -> None:
    options = {"scheduler": node, "optimizer": {"_target_": "torch.optim.AdamW", "lr": 3e-3}}
    words = ["trainer.max_steps=8", "trainer.validate_every=0", "checkpoint.every_steps=3"]
    whole = run_in(tmp_path, tiny(options, *words, "checkpoint.keep_last=9", outputs="whole"), "whole")
    rates = rates_of(whole)
    assert len(set(rates)) > 1, "the rate moves"
    tiny(options, *words, f"resume={whole.checkpoint_dir}/step-00000003.ckpt", outputs="half")
    half = run_in(tmp_path, Done(0, "", ""), "half")
    assert rates_of(half) == rates
    assert_same(last_weights(half), last_weights(whole))


@pytest.mark.slow
def test_logger_of_lightning(tiny: Tiryns, tmp_path: Path) -> None:
    node = {
        "theirs": {"_target_": "lightning.pytorch.loggers.CSVLogger", "name": "csv", "version": ""},
        "board": {"_target_": "lightning.pytorch.loggers.TensorBoardLogger", "name": "board", "version": "x"},
    }
    run = run_in(tmp_path, tiny({"logger": node}))
    (file,) = run.path.glob("csv/**/metrics.csv")
    rows = [row for row in csv.DictReader(file.open()) if row["train/loss"]]
    ours = [row for row in csv.DictReader((run.path / "metrics.csv").open()) if row["train/loss"]]
    assert [float(row["train/loss"]) for row in rows] == [float(row["train/loss"]) for row in ours]
    assert list((run.path / "board" / "x").glob("events*"))


@pytest.mark.slow
@pytest.mark.rows(1)
@pytest.mark.parametrize("words", [["logger=[]"], ["~logger"]])
def test_no_logger_writes_no_metrics(tiny: Tiryns, tmp_path: Path, words: list[str]) -> None:
    run = run_in(tmp_path, tiny({}, *words))
    assert not (run.path / "metrics.csv").exists()
    assert (run.path / "report.html").exists()


@pytest.mark.slow
def test_no_callback_and_no_bar(tiny: Tiryns, tmp_path: Path) -> None:
    quiet = tiny({}, "callback.progress=null", outputs="quiet")
    run_in(tmp_path, quiet, "quiet")
    assert "step 4/4" not in quiet.stdout
    assert "Epoch" not in quiet.stdout + quiet.stderr, "Lightning's own bar"
    none = tiny({}, "callback=[]", outputs="none")
    run = run_in(tmp_path, none, "none")
    assert "Epoch" not in none.stdout + none.stderr
    assert not (run.path / "order.txt").exists()
    assert "step 4/4" in tiny({}, outputs="shown").stdout


@pytest.mark.slow
def test_callback_of_lightning(tiny: Tiryns, tmp_path: Path) -> None:
    monitor = "+callback.rates={_target_: lightning.pytorch.callbacks.LearningRateMonitor}"
    from tests.config.plain_components import Tail

    Tail.steps.clear()
    run = run_in(tmp_path, tiny({}, monitor, f"+callback.tail={{_target_: {HOME}.Tail}}", PLAIN))
    assert Tail.steps == [1, 2, 3, 4]
    assert "lr-AdamW" in (run.path / "metrics.csv").read_text().splitlines()[0]


@pytest.mark.slow
def test_checkpoints_of_lightning_resume_exactly(tiny: Tiryns, tmp_path: Path) -> None:
    node = {
        "_target_": "lightning.pytorch.callbacks.ModelCheckpoint", "every_n_train_steps": 2, "save_top_k": -1,
        "save_last": True,
    }  # fmt: skip
    words = ["trainer.max_steps=6", "trainer.validate_every=0"]
    whole = run_in(tmp_path, tiny({"checkpoint": node}, *words, outputs="whole"), "whole")
    files = sorted(path.name for path in whole.checkpoint_dir.iterdir())
    assert files == ["epoch=0-step=2.ckpt", "epoch=0-step=4.ckpt", "epoch=0-step=6.ckpt", "last.ckpt"]
    weights = last_weights(whole)
    for name in files[2:]:
        (whole.checkpoint_dir / name).unlink()
    whole.update_status(state="failed")
    again = tiny({"checkpoint": node}, *words, "resume=whole", outputs="whole")
    run_in(tmp_path, again, "whole")
    assert "continuing at step 4" in again.stdout
    assert_same(last_weights(whole), weights)


@pytest.mark.slow
def test_best_checkpoint_of_lightning_is_the_objective(tiny: Tiryns, tmp_path: Path) -> None:
    node = {"_target_": "lightning.pytorch.callbacks.ModelCheckpoint", "monitor": "val/held_out/loss"}
    run = run_in(tmp_path, tiny({"checkpoint": node}))
    results = run.status["results"]
    assert results["objective"] <= results["val/held_out/loss"]


@pytest.mark.slow
def test_trainer_of_lightning(tiny: Tiryns, tmp_path: Path) -> None:
    node = {
        "_target_": "lightning.pytorch.Trainer", "max_steps": 4, "accelerator": "cpu", "precision": "32-true",
        "log_every_n_steps": 2, "val_check_interval": 2, "limit_val_batches": 1,
    }  # fmt: skip
    theirs = run_in(tmp_path, tiny({"trainer": node}, outputs="theirs"), "theirs")
    ours = run_in(tmp_path, tiny({}, "trainer.precision=32-true", outputs="ours"), "ours")
    assert_same(last_weights(theirs), last_weights(ours))
    rows = list(csv.DictReader((theirs.path / "metrics.csv").open()))
    assert [row["step"] for row in rows if row["train/loss"]] == ["2", "4"]
    assert [row["step"] for row in rows if row["val/held_out/loss"]] == ["2", "4"]


def test_model_of_transformers(tiny: Tiryns, tmp_path: Path) -> None:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    whole = {"_target_": "transformers.BertConfig", "vocab_size": 320, **sizes}
    for outputs, config in (("a", sizes), ("b", whole)):
        node = {"_target_": "transformers.BertForMaskedLM", "config": config}
        folder = run_in(tmp_path, tiny({"model": node}, outputs=outputs), outputs).path / "model"
        made = AutoModelForMaskedLM.from_pretrained(folder).config
        tokens = 320 if config is whole else len(AutoTokenizer.from_pretrained(folder))
        assert (made.hidden_size, made.vocab_size) == (16, tokens)
