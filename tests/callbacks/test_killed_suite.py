"""SIGKILL at random moments to a training that evaluates with a suite, and to `tiryns judge`: the same figures."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.callbacks.test_suite import own_suite
from tests.conftest import TINY
from tests.launch.test_kill import only_run
from tests.runs.test_train import assert_same_run
from tests.support.processes import assert_nothing_left, killed_at_random
from tiryns.runner.run.files import read_json
from tiryns.runner.run.folder import Run

KILLS = 12

pytestmark = pytest.mark.slow


class Finished:
    """The runs below a folder that are done, and when each began; one that is done must not begin again."""

    def __init__(self, cwd: Path, places: str) -> None:
        self.cwd, self.places = cwd, places
        self.began: dict[Path, str] = {}

    def __call__(self) -> None:
        read = {file: read_json(file, {}) for file in self.cwd.glob(self.places)}
        done = {file: status["started"] for file, status in read.items() if status.get("state") == "done"}
        assert self.began.items() <= done.items()
        self.began = done


def trained(cwd: Path, words: list[str], kills: int) -> Run:
    finished = Finished(cwd, "outputs/*/*/suite/**/status.json")
    killed_at_random(words, cwd, kills, random.Random(kills), finished)
    assert_nothing_left(cwd)
    assert len(finished.began) == 3
    return only_run(cwd / "outputs")


def test_killed_training_has_the_figures_of_its_suite(tmp_path: Path, text_file: Path) -> None:
    words = [
        *TINY, f"data.source={text_file}", "callback=[default,suite]", f"callback.suite.suite={own_suite(tmp_path)}",
        "callback.suite.every=4", "checkpoint.every_steps=2", "model.dropout=0.1", "resume=auto",
    ]  # fmt: skip
    whole, killed = trained(tmp_path / "whole", words, 0), trained(tmp_path / "killed", words, KILLS)
    assert_same_run(whole, killed, 12)


def judged(cwd: Path, words: list[str], kills: int) -> dict[str, Any]:
    finished = Finished(cwd, "outputs/*/*-judge/*/status.json")
    killed_at_random(words, cwd, kills, random.Random(kills), finished)
    assert_nothing_left(cwd)
    text = (cwd / "output.txt").read_text()
    answer = json.loads("{" + text.rpartition("\n{")[2])
    (found,) = answer["comparisons"]
    assert len(finished.began) == 2 * len(found["pairs"])
    return {name: found[name] for name in ("answer", "difference", "interval", "p", "shared", "clear_after")}


def test_killed_judge_gives_the_same_answer(tmp_path: Path, text_file: Path) -> None:
    change = ["--change", "optimizer.lr=0.0003"]
    words = ["judge", *change, *TINY, f"data.source={text_file}", "--json"]
    assert judged(tmp_path / "whole", words, 0) == judged(tmp_path / "killed", words, KILLS)
