"""What a plain target cannot do is said in one line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from tests.config.conftest import PLAIN, Options, Tiryns, assert_one_line, own, run_in
from tiryns.runner.build import bind
from tiryns.runner.config.targets import allow_targets, locate
from tiryns.runner.run.errors import explain

ADAMW = "torch.optim.AdamW"
RATES = "torch.optim.lr_scheduler"
TRAINER = "lightning.pytorch.Trainer"
BERT = "transformers.BertForMaskedLM"

WRONG: list[tuple[Options, list[str]]] = [
    ({"optimizer": {"_target_": ADAMW, "lrr": 1}}, ["optimizer: torch.optim.AdamW", "'lrr'", "Did you mean 'lr'?"]),
    ({"optimizer": {"_target_": ADAMW, "bird": 1}}, ["'bird'", "configs/optimizer/mine.yaml"]),
    ({"optimizer": {"_target_": ADAMW, "lr": -1}}, ["optimizer: torch.optim.AdamW", "Invalid learning rate: -1"]),
    ({"optimizer": {"_target_": ADAMW, "_convert_": "some"}}, ["optimizer._convert_=some", "none, partial, object, all"]),
    ({"optimizer": {"_target_": "torch.optim.LBFGS"}}, ["optimizer: torch.optim.LBFGS", "several times a step"]),
    ({"scheduler": {"_target_": f"{RATES}.ReduceLROnPlateau"}}, ["scheduler: ", "ReduceLROnPlateau", "counts steps"]),
    ({"scheduler": {"_target_": f"{RATES}.OneCycleLR"}}, ["scheduler: ", "missing a required argument: 'max_lr'"]),
    ({"trainer": {"_target_": TRAINER, "max_steps": 4, "gradient_clip_val": 1.0}}, ["gradient clipping"]),
    ({"trainer": {"_target_": TRAINER, "max_stepss": 4}}, ["trainer: ", "Did you mean 'max_steps'?"]),
    ({"trainer": {"_target_": TRAINER, "logger": False}}, ["trainer.logger", "group logger"]),
    ({"model": {"_target_": "transformers.AutoModel.from_pretrained"}}, ["model: the target", "is not allowed"]),
    ({"model": {"_target_": BERT, "config": {"hidden_siz": 8}}}, ["config.hidden_siz", "mean 'hidden_size'?"]),
    ({"model": {"_target_": "runner.models.build_encoder", "architecture": "bert"}}, ["model: ", "lacks hidden_size"]),
    ({"callback": {"x": {"_target_": "lightning.pytorch.callbacks.EarlyStopping"}}}, ["callback.x: ", "'monitor'"]),
]  # fmt: skip


@pytest.mark.rows(2)
@pytest.mark.parametrize(("options", "words"), WRONG, ids=[words[-1] for _, words in WRONG])
def test_wrong_setting_is_one_line(tiny: Tiryns, options: Options, words: list[str]) -> None:
    assert_one_line(tiny(options), *words)


@pytest.mark.parametrize(
    "allocate", [lambda: torch.empty(10**14), lambda: np.empty(10**14), lambda: bytearray(10**15)]
)
def test_memory_that_runs_out_is_told_with_what_needs_less(allocate: Callable[[], Any]) -> None:
    with pytest.raises((RuntimeError, MemoryError)) as error:
        allocate()
    message = str(explain(error.value))
    assert message.startswith("the memory of the machine is full")
    assert "data.micro_batch_tokens" in message
    assert "\n" not in message
    on_gpu = str(explain(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has")))
    assert on_gpu.startswith("the memory of the GPU is full (an allocation of 2.00 GiB failed)")
    assert explain(RuntimeError("mat1 and mat2 shapes cannot be multiplied")) is None


def test_module_that_is_not_on_the_path_is_told_where_to_be() -> None:
    allow_targets(["herons_here"])
    try:
        message = r"No module named 'herons_here'; its folder must be on PYTHONPATH"
        with pytest.raises(ImportError, match=message):
            locate("herons_here.make", "optimizer")
    finally:
        allow_targets([])


@pytest.mark.slow
def test_parts_that_do_not_fit_are_one_line(tiny: Tiryns) -> None:
    points = {"data": own("Points")}
    done = tiny(points, PLAIN, text=False)
    assert_one_line(done, "runner.modules.PretrainingRun reads global batches", "plain LightningDataModule")
    done = tiny({**points, "module": own("ShareModule")}, PLAIN, text=False, outputs="b")
    assert_one_line(done, "vocabulary of a tokenizer", "the data has none")
    assert_one_line(tiny({}, "sampler=split_modality", outputs="c"), "sampler=split_modality", "text alone")
    source = "data.source={_target_: tests.config.plain_components.Ones}"
    assert_one_line(tiny({}, source, PLAIN, outputs="d"), "is no source", "Ones lacks documents, fingerprint")


@pytest.mark.slow
def test_scheduler_that_ends_before_a_branch_is_one_line(tiny: Tiryns, tmp_path: Path) -> None:
    options = {"scheduler": {"_target_": f"{RATES}.OneCycleLR", "max_lr": 1e-3}}
    run_in(tmp_path, tiny(options, outputs="short"), "short")
    done = tiny(options, "trainer.max_steps=8", "resume=short", outputs="long")
    assert_one_line(done, "OneCycleLR ends at step 4", "this run at step 8")


@pytest.mark.slow
def test_launcher_without_a_sweep_is_warned_of(tiny: Tiryns, tmp_path: Path) -> None:
    done = tiny({}, "hydra/launcher=slurm")
    run_in(tmp_path, done)
    assert "hydra/launcher=slurm has no effect without -m, so this trains here" in done.stdout + done.stderr


def test_missing_key_is_told_with_its_place() -> None:
    try:
        {"other": 1}["name"]
    except KeyError as error:
        said = explain(error)
    assert said is not None
    assert said.startswith("'name' is missing from what is read here (test_plain_errors.py, line ")
    assert explain(KeyError("the column 'a' is missing")) == "the column 'a' is missing"


def test_conversions_are_those_of_hydra() -> None:
    node = {"_target_": "lightning.pytorch.Callback", "x": {"a": [1]}, "y": [2]}
    for convert, plain in (("all", True), ("partial", True), ("none", False)):
        config = OmegaConf.create({"callback": {"x": {**node, "_convert_": convert}}})
        made = bind(config.callback.x).keywords
        assert OmegaConf.is_config(made["x"]) != plain
        assert made == {"x": {"a": [1]}, "y": [2]}
    kept = {**node, "_recursive_": False, "x": {"_target_": "runner.callbacks.Throughput"}}
    config = OmegaConf.create({"callback": {"x": kept}})
    assert bind(config.callback.x).keywords["x"] == {"_target_": "runner.callbacks.Throughput"}
