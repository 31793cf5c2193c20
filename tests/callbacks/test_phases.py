"""The phases of a run in its steps: rotary bases, rates and decays, checkpoints and validations at their ends."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import train_here
from tests.runs.test_train import assert_same_run, continued, weights
from tiryns.conf.phases import Phase
from tiryns.runner.callbacks.phases import PhaseChanges
from tiryns.runner.cli.models.average import average
from tiryns.runner.cli.models.consolidate import consolidate
from tiryns.runner.run.folder import Run

SECOND = "optimizer: {lr: 0.002, weight_decay: 0.4}, model: {rope_theta: 77, local_rope_theta: 33}"
FIRST = "name: first, steps: 5"
RUN = [
    "model=modernbert_tiny", "trainer.max_steps=10", "trainer.validate_every=4", "checkpoint.every_steps=2",
    "optimizer.weight_decay=0.1", "scheduler=constant", "model.dropout=0.1", "trainer.log_every=1",
]  # fmt: skip
PHASED = [*RUN, f"phases=[{{{FIRST}}}, {{name: second/half, steps: 5, {SECOND}}}]"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Run:
    folder = tmp_path_factory.mktemp("phases") / "whole"
    run: Run = train_here(folder, text_file, *PHASED, "checkpoint.keep_last=9")
    return run


def theta_of(model: Path) -> dict[str, float]:
    """The bases in the config of an exported model, by the type of layer."""
    config = json.loads((model / "config.json").read_text())
    return {kind: part["rope_theta"] for kind, part in config["rope_parameters"].items()}


def decays_at(run: Run, step: int) -> list[float]:
    saved = torch.load(run.checkpoint_dir / f"step-{step:08d}.ckpt", weights_only=True)
    return [group["weight_decay"] for group in saved["optimizer_states"][0]["param_groups"]]


CHANGED, AS_BUILT = (
    {"full_attention": 77.0, "sliding_attention": 33.0},
    {"full_attention": 160000.0, "sliding_attention": 10000.0},
)


@pytest.mark.slow
@pytest.mark.parametrize("step", [4, 5, 8, 10])
def test_resumed_run_is_bitwise_the_undisturbed_one(whole: Run, step: int, text_file: Path) -> None:
    cut = continued(whole, step, f"cut_{step}")
    train_here(cut.path, text_file, *PHASED, "checkpoint.keep_last=9", "data.num_workers=1")
    assert_same_run(whole, cut, 10)
    assert theta_of(cut.path / "model") == theta_of(whole.path / "model") == CHANGED
    assert cut.status["phases"] == whole.status["phases"]


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    "setting", ["lr: 0.002", "weight_decay: 0.4", "{rope_theta: 77", "local_rope_theta: 33"]
)
def test_each_setting_of_a_phase_counts(whole: Run, setting: str, text_file: Path) -> None:
    words = [word.replace(setting, setting + "1") for word in PHASED]
    other = continued(whole, 5, f"other_{setting.strip('{').partition(':')[0]}")
    train_here(other.path, text_file, *words)
    assert any(not torch.equal(one, weights(other, 10)[name]) for name, one in weights(whole, 10).items())


@pytest.mark.slow
def test_ends_of_phases_are_saved_kept_and_named(tmp_path: Path, text_file: Path) -> None:
    run = train_here(tmp_path / "run", text_file, *PHASED, "checkpoint.every_steps=3")
    names = {path.name: os.readlink(path) for path in run.checkpoint_dir.iterdir() if path.is_symlink()}
    best = names.pop("best.ckpt")
    last, first = "step-00000010.ckpt", "step-00000005.ckpt"
    assert names == {"last.ckpt": last, "phase-1-first.ckpt": first, "phase-2-second-half.ckpt": last}
    assert {path.name for path in run.checkpoint_dir.glob("step-*")} == {first, last, best}
    assert (decays_at(run, 5)[0], decays_at(run, 10)[0]) == (0.4, 0.4)


def test_ends_of_phases_are_validated(whole: Run) -> None:
    from tiryns.runner.run.metrics_file import read_metrics

    losses = next(
        v for k, v in read_metrics(whole.path / "metrics.csv").items() if k.endswith("held_out/loss")
    )
    assert losses.steps.tolist() == [4, 5, 8, 10]
    phases = whole.status["phases"]
    assert [(each["name"], each["steps"]) for each in phases] == [("first", 5), ("second/half", 5)]
    assert all(each["tokens"] > 500 for each in phases)


def test_checkpoint_of_a_phase_is_exported_with_the_bases_of_its_phase(whole: Run, tmp_path: Path) -> None:
    assert theta_of(consolidate(whole.checkpoint_dir / "step-00000005.ckpt", tmp_path / "first")) == AS_BUILT
    assert theta_of(consolidate(whole.checkpoint_dir / "step-00000006.ckpt", tmp_path / "second")) == CHANGED


def test_average_of_checkpoints_has_the_bases_of_the_first(whole: Run, tmp_path: Path) -> None:
    mean = average([f"{whole.path}@phase-1-first", str(whole.path)], tmp_path / "mean")
    assert theta_of(mean) == AS_BUILT
    assert theta_of(average([str(whole.path), f"{whole.path}@5"], tmp_path / "other")) == CHANGED


def test_phase_is_told_in_a_line_when_it_begins() -> None:
    settings: Any = {"data": {"max_length": 512}, "model": {"rope_theta": 160000}}
    changes = PhaseChanges([Phase("stable", steps=300), Phase("extend", steps=100, **settings)], None)
    line = "phase extend: steps 301 to 400, data.max_length=512, model.rope_theta=160000"
    assert changes._phase_line(1, 300) == line
    assert changes._phase_line(1, 349) == line.replace("400,", "400, continuing at 350,")
