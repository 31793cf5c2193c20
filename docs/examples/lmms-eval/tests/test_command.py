"""The command takes the words of the page, and says in one line what is missing."""

import shlex
import sys
from pathlib import Path

import pytest

from tiryns_lmms_eval.command import main, parser

README = Path(__file__).parents[1] / "README.md"


def test_without_lmms_eval_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lmms_eval", None)
    monkeypatch.setitem(sys.modules, "lmms_eval.evaluator", None)
    monkeypatch.delitem(sys.modules, "tiryns_lmms_eval.tasks", raising=False)
    with pytest.raises(
        SystemExit, match=r"^error: lmms-eval is missing \(.*\): pip install 'tiryns\[lmms-eval\]'$"
    ):
        main(["RUN", "--tasks", "chartqa"])


def test_tasks_have_names() -> None:
    with pytest.raises(SystemExit, match=r"^error: --tasks names none: expected names"):
        main(["RUN", "--tasks", ","])


def test_commands_of_the_page_are_understood() -> None:
    lines = [line for line in README.read_text().splitlines() if line.startswith("tiryns-lmms-eval ")]
    assert len(lines) >= 2
    for line in lines:
        assert parser().parse_args(shlex.split(line)[1:]).tasks
