"""SIGKILL at random moments to `tiryns judge`: the same figures."""

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TINY
from tests.support.processes import assert_nothing_left, killed_at_random, start, steps_done
from tiryns.runner.run.files import read_json

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


def judged(cwd: Path, words: list[str], kills: int) -> dict[str, Any]:
    finished = Finished(cwd, "outputs/*/*-judge/*/status.json")

    def files() -> int:
        return steps_done(cwd) + sum(len(names) for _, _, names in os.walk(cwd / "outputs"))

    draw = random.Random(kills)
    killed_at_random(lambda: start(words, cwd, module="tiryns"), cwd, kills, draw, files, 25, finished)
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
