"""Whole runs with a teacher: resumed bit for bit, and with that teacher alone."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.conftest import TINY, train_here
from tests.runs.test_data_order import losses
from tests.runs.test_train import Train, assert_same_run, continued, weights
from tests.support.in_process import tiryns_here
from tiryns.runner.manifest.differences import MADE, differences
from tiryns.runner.run.folder import Run

SHORT = ["trainer.max_steps=6", "trainer.validate_every=0"]
SAVING = ["checkpoint.every_steps=3", "checkpoint.keep_last=9", "model.dropout=0.1", *SHORT]
PARTS = ["objective.hidden_weight=0.5", "objective.hidden_layers=uniform", "objective.top_k=20"]


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Run:
    """A run of two layers of 48, with dropout."""
    folder = tmp_path_factory.mktemp("taught") / "teacher"
    sizes = ["model.hidden_size=48", "model.num_hidden_layers=3", "model.dropout=0.1"]
    made: Run = train_here(folder, text_file, *sizes, "optimizer.lr=0.01", "trainer.max_steps=4")
    return made


def taught_by(teacher: Run) -> list[str]:
    return [f"objective.teacher={teacher.path}", *PARTS]


def test_without_weight_a_run_is_plain_to_the_bit(run_here: Train, teacher: Run) -> None:
    off = ["objective.teacher_weight=0", "objective.label_weight=1"]
    plain = run_here(*SAVING, folder="plain")
    unheard = run_here(f"objective.teacher={teacher.path}", *off, *SAVING, folder="off")
    assert_same_run(plain, unheard, 6)


@pytest.mark.slow
def test_resume_is_bitwise_and_only_with_the_same_teacher(
    run_here: Train, teacher: Run, tmp_path: Path
) -> None:
    moved = Run(tmp_path / "teacher")
    shutil.copytree(teacher.path, moved.path)
    whole = run_here(*taught_by(moved), *SAVING, folder="whole")
    continued(whole, 3, "copy")
    resumed = run_here(*taught_by(moved), *SAVING, folder="copy")
    assert_same_run(whole, resumed, 6)
    exported = json.loads((whole.path / "model" / "config.json").read_text())
    assert exported["num_hidden_layers"] == 2, "the student alone is exported"
    assert not [name for name in weights(whole, 6) if "teacher" in name]

    before = json.loads((whole.path / "manifest.json").read_text())
    file = moved.path / "model" / "model.safetensors"
    changed = load_file(file)
    changed = {name: tensor + torch.ones_like(tensor) * 1e-3 for name, tensor in changed.items()}
    save_file(changed, file, metadata={"format": "pt"})
    continued(whole, 3, "other")
    with pytest.raises(
        ValueError, match=r"objective.teacher: its weights are not those .* resume_changed_data"
    ):
        run_here(*taught_by(moved), *SAVING, folder="other")
    other = run_here(*taught_by(moved), *SAVING, "resume_changed_data=true", folder="other")
    after = json.loads((other.path / "manifest.json").read_text())
    found = [str(one) for one in differences(before, after, MADE)]
    assert any("teacher" in line and "model.safetensors differs" in line for line in found), found
    assert losses(other) != losses(whole)


def refused(tmp_path: Path, *words: str) -> str:
    done = tiryns_here(tmp_path, *TINY, *words)
    assert done.returncode == 1
    assert not (tmp_path / "outputs").exists(), "before a folder is made"
    return done.stderr.strip()


def test_a_teacher_that_cannot_teach_is_one_line_before_anything_begins(
    tmp_path: Path, text_file: Path, teacher: Run
) -> None:
    source = f"data.source={text_file}"
    unfinished = Run(tmp_path / "unfinished")
    shutil.copytree(teacher.path, unfinished.path)
    shutil.rmtree(unfinished.path / "model")
    told = refused(tmp_path, source, f"objective.teacher={unfinished.path}")
    assert told.startswith("error: objective.teacher: there is no trained model in ")
    nothing = ["objective.label_weight=0", "objective.teacher_weight=0"]
    told = refused(tmp_path, source, f"objective.teacher={teacher.path}", *nothing)
    assert told.startswith("error: nothing is learnt: objective.label_weight, objective.teacher_weight, ")
    told = refused(tmp_path, source, "objective.teacher_temperature=0")
    assert "objective.teacher_temperature" in told


def test_a_teacher_with_other_tokens_is_refused_by_name(run_here: Train, teacher: Run) -> None:
    with pytest.raises(ValueError, match=r"objective.teacher: .* other tokens .* data.tokenizer="):
        run_here(*taught_by(teacher), "data.vocab_size=80")
