"""Finetuned runs of every task, which the tests of prediction and evaluation share."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.data.pairs.rows import write
from tests.modules.conftest import EVERY, NEW, ROWS, TINY
from tests.support.composed import composed
from tiryns.runner.cli.commands import main
from tiryns.runner.run.folder import Run
from tiryns.runner.train import train

Runs = dict[str, tuple[Path, Path]]


def finetuned(folder: Path, *overrides: str, model: Sequence[str] = NEW) -> Path:
    run, config = Run(folder), composed(arguments := [*TINY, *model, *overrides])
    run.begin(config, arguments)
    train(config, run)
    return folder


def printed(capsys: pytest.CaptureFixture[str], *words: object) -> list[str]:
    """The lines that `tiryns predict` prints."""
    capsys.readouterr()  # what a run has said before
    main(["predict", *map(str, words)])
    return capsys.readouterr().out.splitlines()


def evaluated(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    """What `tiryns evaluate` prints as JSON."""
    capsys.readouterr()
    main(["evaluate", *map(str, words), "--json"])
    return json.loads(capsys.readouterr().out)


def entry(capsys: pytest.CaptureFixture[str], run: Path, file: Path, *words: object) -> dict[str, Any]:
    """What it prints of one set."""
    return evaluated(capsys, run, file, *words)["sets"][str(file)]


class LabelledRuns(dict[str, tuple[Path, Path]]):
    """By task, a run and a file of examples that it has predicted labels for; trained when it is first asked for."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder, self.words = folder, words

    def __missing__(self, task: str) -> tuple[Path, Path]:
        files = {}
        for seed, (name, count) in enumerate({"train": 40, "test": 17}.items()):
            files[name] = write(self.folder / f"{task}-{name}.jsonl", ROWS[task](count, seed))
        sets = [f"data.{name}={path}" for name, path in files.items()]
        steps = ["trainer.max_steps=4", "trainer.validate_every=0"]
        self[task] = finetuned(self.folder / task, *EVERY[task], *sets, *steps, *self.words), files["test"]
        return self[task]


@pytest.fixture(scope="session")
def labelled_runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """A run of any task."""
    return LabelledRuns(tmp_path_factory.mktemp("finetuned"))


@pytest.fixture(scope="session")
def runs(labelled_runs: Runs) -> Runs:
    """The same, by the name that most tests use; those of language models have others under it."""
    return labelled_runs
