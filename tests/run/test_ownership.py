"""A folder with files of a user's is never written to: every command refuses it, and changes nothing."""

from pathlib import Path

import pytest

import tiryns
from tests.conftest import TINY
from tests.support.in_process import refused
from tiryns.runner.run.model_folder import check_free, is_ours

THEIRS = {
    "model/thesis.txt": "a year of work", "config.yaml": "mine: true\n", "metrics.csv": "step,mine\n1,2\n",
    "report.html": "<p>mine</p>", "order.txt": "my order", "samples.json": "[]",
    "overrides.json": '[{"mine": 1}]', "status.json": '{"mine": 1}', "checkpoints/last.ckpt": "mine",
}  # fmt: skip
"""Files of a user's that have the names of a run's files."""


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    for name, text in THEIRS.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "project"


def untouched(folder: Path) -> bool:
    found = {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}
    return found == THEIRS


@pytest.mark.rows(3)
@pytest.mark.parametrize(
    "words",
    [
        ["hydra.run.dir=."],
        ["hydra.run.dir=../project"],
        ["hydra.run.dir=model"],
        ["mode=probe", "hydra.run.dir=."],
        ["-m", "hydra.sweep.dir=.", "seed=1,2"],
        ["-m", "hydra.sweep.dir=model", "seed=1"],
        ["--config-dir", "../recipes", "experiment=theirs"],
    ],
    ids=" ".join,
)
def test_run_or_sweep_refuses_a_folder_of_the_users(words: list[str], theirs: Path, text_file: Path) -> None:
    recipe = theirs.parent / "recipes" / "experiment" / "theirs.yaml"
    recipe.parent.mkdir(parents=True)
    recipe.write_text(f"# @package _global_\nhydra: {{run: {{dir: {theirs}}}}}\n")
    error = refused(theirs, *TINY, f"data.source={text_file}", "trainer.max_steps=1", *words)
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert "no run was begun there" in error
    assert untouched(theirs)


def test_python_refuses_it_too(theirs: Path, text_file: Path) -> None:
    with pytest.raises(ValueError, match="no run was begun there"):
        tiryns.run(*TINY, f"data.source={text_file}", f"hydra.run.dir={theirs}")
    assert untouched(theirs)


@pytest.mark.parametrize(
    "left",
    [
        {},
        {"train.log": "2026-01-31 12:00:00 tiryns\n", ".lock": ""},
        {"train.log": "", ".lock": "", ".overrides.json.4711.42.tmp": ""},
        {"train.log": "", ".lock": "", "overrides.json": '["seed=1"]', ".command.txt.4711.42.tmp": ""},
        {"train.log": "", ".lock": "", "command.txt": "tiryns seed=1\n"},
        {"status.json": '{"state": "killed"}', "model/config.json": "{}"},
        {"config.yaml": "# config_hash: 0123456789abcdef\nseed: 1\n", "status.json": "{"},
        {"overrides.json": "[]", "command.txt": "tiryns\n", "config.yaml": ""},
        {"sweep.json": "{", "0/status.json": '{"state": "done"}'},
        {"judge.json": "{}", "a.txt": ""},
    ],
    ids=lambda left: " ".join(left) or "empty",
)
def test_folder_of_a_run_is_written_again_also_a_damaged_one(left: dict[str, str], tmp_path: Path) -> None:
    for name, text in left.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    check_free(tmp_path)
    below = tmp_path / "evaluations" / "step-4"
    below.mkdir(parents=True)
    (below / "model.txt").write_text("")
    if is_ours(tmp_path):
        check_free(below)
    else:
        with pytest.raises(ValueError, match="no run was begun there"):
            check_free(below)
