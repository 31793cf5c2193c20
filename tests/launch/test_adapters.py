"""Whole runs with low-rank adapters, of text and of images: resumed, in shards, exported."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.conftest import TINY, Command, train_as
from tests.launch.test_kill import only_run
from tests.runs.test_train import Train, assert_same_run, continued, losses
from tests.runs.test_vision_language import train_here
from tests.support.precision import rounding
from tests.support.vision import SHAPES, SMALL
from tiryns.runner.opened_run import open_run
from tiryns.runner.run.folder import Run

TEXT = [word for word in TINY if not word.startswith("model")]
QUICK = ["trainer.max_steps=6", "trainer.validate_every=3"]


@pytest.fixture
def adapter(run_here: Train) -> list[str]:
    """The settings of an adapter on a model that is trained already, with dropout of its own, in packed rows."""
    base = run_here("trainer.max_steps=3", "trainer.validate_every=0", folder="base")
    return [
        "model=pretrained", f"model.name_or_path={base.path}", "model.adapter=lora", "model.adapter_rank=4",
        "model.adapter_alpha=16", "model.adapter_dropout=0.1", "data.layout=packed",
    ]  # fmt: skip


@pytest.fixture
def here(tmp_path: Path, text_file: Path, adapter: list[str]) -> Train:
    """Trains an adapter in this process: `here("model.adapter=dora", folder="name")` gives the run folder."""

    def call(*overrides: str, folder: str = "run") -> Run:
        words = [*TEXT, f"data.source={text_file}", *adapter, *QUICK, *overrides]
        found: Run = train_as(tmp_path / folder, words)
        return found

    return call


@pytest.mark.slow
def test_pretraining_goes_on_with_an_adapter_and_resumes_bitwise(here: Train, tmp_path: Path) -> None:
    saving = ["checkpoint.every_steps=2", "checkpoint.keep_last=9"]
    whole = here(*saving, folder="whole")
    continued(whole, 4, "resumed")
    resumed = here(*saving, folder="resumed")
    assert_same_run(whole, resumed, 6)
    before, after = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("base", "whole"))
    assert before.keys() == after.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert all(".encoder.layer." in name or "transform" in name for name in changed)
    assert len([name for name in changed if ".encoder.layer." in name]) == 12


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lora", "dora"])
def test_shards_train_an_adapter_as_one_process_does(
    tiryns: Command, here: Train, tmp_path: Path, text_file: Path, adapter: list[str], kind: str
) -> None:
    settings = [word for word in TEXT if word != "trainer=cpu"]
    sharded = ["trainer=fsdp", "trainer.accelerator=cpu", "trainer.devices=2", f"model.adapter={kind}"]
    tiryns(*settings, f"data.source={text_file}", *adapter, *QUICK, *sharded)
    two, one = only_run(tmp_path / "outputs"), here(f"model.adapter={kind}")
    assert losses(two) == pytest.approx(losses(one), rel=rounding(1e-5, 1e-3))
    ours, theirs = (load_file(run.path / "model" / "model.safetensors") for run in (one, two))
    for name, weight in ours.items():
        torch.testing.assert_close(weight, theirs[name], atol=rounding(1e-5, 1e-2), rtol=1e-3, msg=name)


@pytest.mark.slow
def test_language_model_of_a_vision_language_model_is_adapted(tmp_path: Path) -> None:
    """Its own weights stay, the vision tower and the projector follow `module.freeze`; both exports answer alike."""
    first = train_here(tmp_path / "first", *SHAPES, "model=llava_tiny", *SMALL, "trainer.max_steps=2")
    settings = [
        *SHAPES, "model=pretrained", f"model.name_or_path={first.path}", "model.adapter=lora", "data.layout=packed",
        "trainer.max_steps=2", "module.load_best=false", "module.freeze=['re:vision_tower']",
    ]  # fmt: skip
    merged = train_here(tmp_path / "merged", *settings)
    separate = train_here(tmp_path / "separate", *settings, "model.adapter_export=separate")
    before, after = (load_file(run.path / "model" / "model.safetensors") for run in (first, merged))
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    kinds = ["language_model", "multi_modal_projector"]
    assert [sum(kind in name for name in changed) for kind in kinds] == [14, 4]
    assert len(changed) == 18, changed
    config = json.loads((separate.path / "model" / "adapter_config.json").read_text())
    assert config["modules_to_save"] == ["model.multi_modal_projector"]
    assert Path(config["base_model_name_or_path"]) == first.path / "model"
    exported = [open_run(run.path).model().state_dict() for run in (merged, separate)]
    for name, weight in exported[0].items():
        torch.testing.assert_close(exported[1][name], weight, atol=1e-6, rtol=1e-5, msg=name)


def test_settings_of_an_adapter_without_one_are_refused(tiryns: Command) -> None:
    words = ["model=pretrained", "model.name_or_path=somewhere", "model.adapter_rank=3"]
    done = tiryns(*words, check=False)
    assert "model.adapter_rank counts with an adapter alone: set model.adapter=lora" in done.stderr
