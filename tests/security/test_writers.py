"""Every command that writes is tried on a folder with files of the user's: none is touched, or one line refuses it."""

import json
import re
from pathlib import Path

import pytest

from tests.conftest import TINY
from tests.report.pages import make_run
from tests.support.in_process import tiryns_here
from tiryns.runner.run.files import replaceable

THEIRS = {
    "thesis.txt": "a year of work", "model/thesis.txt": "a year of work", "table.csv": "mine\n1\n",
    "page.html": "<p>mine</p>", "runs/comparison.html": "mine", "evaluation.json": "{}", "report.html": "mine",
    "order.txt": "mine", "predictions.jsonl": "{}", "corpus/text.txt": "mine", "shards/a.tar": "mine",
    "checkpoints/last.ckpt": "mine", "config.yaml": "mine: true\n",
}  # fmt: skip
"""Files of a user's, some with the names of ours."""

WRITERS = {
    "train": [*TINY, "data.source=thesis.txt", "hydra.run.dir=."],
    "train below": [*TINY, "data.source=thesis.txt", "hydra.run.dir=model"],
    "sweep": [*TINY, "data.source=thesis.txt", "-m", "hydra.sweep.dir=.", "seed=1,2"],
    "suite": ["suite=docstrings", "model=bert_tiny", "hydra.sweep.dir=."],
    "probe": ["mode=probe", "data=files", "data.source=thesis.txt", "hydra.run.dir=."], "report": ["report", "."],
    "report --out": ["report", "../runs/a", "--out", "thesis.txt"],
    "report --out page": ["report", "../runs/a", "--out", "page.html"],
    "report of two": ["report", "runs/a", "runs/b"],
    "report --format": ["report", "../runs/a", "--format", "csv", "--out", "table.csv"],
    "report --json": ["report", "../runs/a", "--json", "--out", "evaluation.json"],
    "judge --out": ["judge", "../runs/a", "../runs/b", "--out", "page.html"],
    "order --out": ["order", "../runs/a", "--out", "order.txt"],
    "predict --out": ["predict", "../runs/a", "a text", "--out", "predictions.jsonl"],
    "evaluate --out": ["evaluate", "../runs/a", "thesis.txt", "--out", "."],
    "evaluate --out a file": ["evaluate", "../runs/a", "thesis.txt", "--out", "thesis.txt"],
    "push": ["push", "../runs/a", "./model"], "push --replace": ["push", "../runs/a", "./model", "--replace"],
    "average": ["average", "../runs/a", "../runs/b", "--out", "model"],
    "consolidate": ["consolidate", "../runs/a", "model"], "prepare": ["prepare", "--shapes", "shards"],
    "prepare corpus": ["prepare", "corpus", "thesis.txt", "corpus", "--tokenizer", "../runs/a/model"],
    "new": ["new", "model"], "resume": ["resume=."], "reproduce": ["reproduce", "."], "verify": ["verify", "."],
    "evaluate a folder that is no run": ["evaluate", ".", "thesis.txt"],
}  # fmt: skip
"""Commands that write, in the user's folder; `../runs/a` is a run, whose model is a config and a card."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in THEIRS.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name in ("a", "b"):
        for place in (tmp_path / "runs" / name, tmp_path / "project" / "runs" / name):
            run = make_run(place, seed="ab".index(name))
            (run / "model").mkdir()
            (run / "model" / "config.json").write_text(json.dumps({"model_type": "bert"}))
            (run / "model" / "README.md").write_text("")
    return tmp_path / "project"


@pytest.mark.rows(7)
@pytest.mark.parametrize("name", WRITERS)
def test_writer_touches_nothing_of_the_users(name: str, project: Path) -> None:
    done = tiryns_here(project, *WRITERS[name])
    left = {path: (project / path).read_text() for path in THEIRS if (project / path).is_file()}
    assert left == THEIRS, done.stderr
    assert done.returncode != 0, "the command wrote, and beside the files of the user's"
    assert len([line for line in done.stderr.splitlines() if line.startswith("error: ")]) == 1, done.stderr
    assert not re.search(r"Traceback|unexpected", done.stderr), done.stderr


def test_file_that_a_command_wrote_is_written_again(project: Path) -> None:
    words = ("report", "../runs/a", "--out", "new.html")
    for _ in range(2):
        assert tiryns_here(project, *words).returncode == 0
    (project / "new.html").write_text("changed by the user")
    done = tiryns_here(project, *words)
    assert "not as a command of yours wrote it" in done.stderr
    assert (project / "new.html").read_text() == "changed by the user"


def test_files_of_several_names_are_asked_for_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("mine")
    for _ in range(2):
        with replaceable(tmp_path / "a.txt", None):
            (tmp_path / "a.txt").write_text("ours")
    both = tmp_path / "a.txt", tmp_path / "b.txt"
    with pytest.raises(FileExistsError, match=r"b\.txt' is there.*remove it first"), replaceable(*both):
        pass
    with replaceable(None), replaceable(Path("/dev/null")):
        pass


def test_file_is_written_where_nothing_can_be_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIRYNS_CACHE", raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # a user without a home
    with replaceable(tmp_path / "new.txt"):
        (tmp_path / "new.txt").write_text("ours")
    with pytest.raises(FileExistsError, match=r"new\.txt' is there"), replaceable(tmp_path / "new.txt"):
        pass
