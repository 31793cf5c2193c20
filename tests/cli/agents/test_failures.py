"""A failure of a command with `--json`: one line of JSON with a code, the message and what cures it."""

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.support.in_process import tiryns_here
from tiryns.runner.data.read.bad_rows import AdvisedError
from tiryns.runner.run.command import status
from tiryns.runner.run.command.failure import CODES, failure_of
from tiryns.runner.run.errors import Diverged, TrainingFailure
from tiryns.runner.run.signals import Stopped


def failed(cwd: Path, *words: str, ends: int = status.ERROR) -> dict[str, Any]:
    """The failure of a command, which leaves standard output empty, after the line for people."""
    done = tiryns_here(cwd, *words, "--json")
    assert (done.returncode, done.stdout) == (ends, "")
    *told, last = done.stderr.splitlines()
    failure = json.loads(last)
    assert list(failure) == ["code", "message", "fix"]
    assert failure["code"] in CODES
    assert f"error: {failure['message']}" in "\n".join(told) or ends != status.ERROR
    return dict(failure)


FAILURES = [
    ("runz", "no_such_command", "tiryns runs --json"), ("runs --fast", "bad_arguments", "tiryns runs --help"),
    ("runs shwo", "bad_arguments", "tiryns runs show --json"), ("runs", "no_such_run", "--outputs FOLDER"),
    ("verify nowhere", "no_such_run", "tiryns runs"),
    ("info optimizr=lion", "bad_setting", "tiryns info optimizer=lion --json"),
    ("plan optimizer.lrr=3", "bad_setting", "tiryns plan optimizer.lr=3 --json"),
    ("plan optimizer.lr=-1", "bad_setting", "tiryns info optimizer"),
    ("plan -m seed=1,2", "bad_arguments", "tiryns plan --help"),
]  # fmt: skip


@pytest.mark.rows(6)
@pytest.mark.parametrize(("words", "code", "fix"), FAILURES, ids=[words for words, *_ in FAILURES])
def test_failure_has_a_code_and_what_cures_it(tmp_path: Path, words: str, code: str, fix: str) -> None:
    failure = failed(tmp_path, *words.split())
    assert (failure["code"], failure["fix"]) == (code, fix)


def test_interrupted_command_goes_on_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tiryns.runner.cli.runs.all_runs", interrupted)
    failure = failed(tmp_path, "runs", ends=status.INTERRUPTED)
    assert (failure["code"], failure["fix"]) == ("interrupted", "tiryns runs --json")


def test_defect_is_unexpected_and_its_traceback_can_be_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("tiryns.runner.cli.runs.all_runs", broken)
    assert failed(tmp_path, "runs")["code"] == "unexpected"
    monkeypatch.setenv("TIRYNS_FULL_ERROR", "1")
    done = tiryns_here(tmp_path, "runs", "--json")
    assert "Traceback" in done.stderr
    assert json.loads(done.stderr.splitlines()[-1])["code"] == "unexpected"


@pytest.mark.parametrize(
    ("error", "code", "fix"),
    [
        (Stopped(signal.SIGTERM), "preempted", "tiryns judge a b"),
        (SystemExit(status.ERROR), "failed", None),
        (SystemExit(status.DIFFERENT), "different", None),
        (Diverged("the loss is not a number", 3, 2), "diverged", None),
        (TrainingFailure("no gradient"), "training_failed", None),
        (PermissionError(13, "Permission denied", "a.csv"), "file_error", None),
        (
            ImportError("needs peft: pip install 'tiryns[peft]'"),
            "not_installed",
            "pip install 'tiryns[peft]'",
        ),
        (AdvisedError("it may be cut at several signs", delimiter=";"), "bad_data", "data.delimiter=';'"),
        (AdvisedError("no column", text_column=("a", "b")), "bad_data", None),
        (ValueError("no labels; name them, or use `tiryns predict`"), "refused", None),
        (ValueError("unknown; `tiryns info optimizer` lists them"), "refused", "tiryns info optimizer"),
        (ValueError("too few: give --seeds 6 or more"), "refused", "--seeds 6"),
        (ValueError("give allowed_addresses=[s3://mine]"), "refused", "allowed_addresses=[s3://mine]"),
        (ValueError("one file is not done. Add: data.a=1 data.b=2"), "refused", "data.a=1 data.b=2"),
        (ValueError("too long; set data.layout=padded, or less"), "refused", "data.layout=padded"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_errors_have_the_code_of_their_class(error: BaseException, code: str, fix: str | None) -> None:
    failure = failure_of(error, str(error), ["judge", "a", "b"])
    assert (failure.code, failure.fix) == (code, fix)


def test_page_has_the_codes_and_the_statuses_as_the_program_does() -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    rows = re.findall(
        r"^\| (\d+) \| `(\w+)` \| (.+?) \| ", page.partition("\n## Exit statuses\n")[2], re.MULTILINE
    )
    assert {int(number): (word, about) for number, word, about in rows} == status.MEANINGS
    codes = page.partition("\n## Failures\n")[2].partition("\n## ")[0]
    assert dict(re.findall(r"^\| `(\w+)` \| (.+?) \|$", codes, re.MULTILINE)) == {
        name: code.about for name, code in CODES.items() if (name, code.about) not in status.MEANINGS.values()
    }
