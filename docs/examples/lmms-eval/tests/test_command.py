"""The command says in one line what is missing."""

import sys

import pytest

from tiryns_lmms_eval.command import main


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
