"""Exit statuses: those that `docs/commands.md` explains, and no others."""

import re
import signal
from pathlib import Path

import pytest

from tests.cli.judge.folders import make_run
from tests.conftest import ROOT
from tests.support.in_process import tiryns_here
from tiryns.runner.run.command import status
from tiryns.runner.run.signals import Stopped

NUMBERS = {name: value for name, value in vars(status).items() if isinstance(value, int)}


def test_page_has_each_number_once() -> None:
    page = (ROOT / "docs" / "commands.md").read_text().partition("\n## Exit statuses\n")[2]
    rows = re.findall(r"^\| ([\d, ]+) \|", page, re.MULTILINE)
    assert sorted(int(number) for row in rows for number in row.split(",")) == sorted(NUMBERS.values())


def test_no_module_ends_with_a_number_of_its_own() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for top in ("runner", "hydra_plugins")
        for path in (ROOT / top).rglob("*.py")
        for line in path.read_text().splitlines()
        if re.search(r"(?:\bexit|_exit|SystemExit)\(\d|EXIT\w* = \d", line)
    ]
    assert not found


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("version", status.DONE),
        ("versoin", status.ERROR),
        ("judge one same", status.NOT_CLEAR),
        ("audit one same", status.DONE),
        ("audit one other", status.DIFFERENT),
        ("audit one nowhere", status.ERROR),
    ],
)
def test_commands_end_as_documented(tmp_path: Path, words: str, expected: int) -> None:
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        make_run(tmp_path / name, seed, 4.0 + seed)
    assert tiryns_here(tmp_path, *words.split()).returncode == expected


def test_signals_end_as_documented() -> None:
    assert Stopped(signal.SIGINT).code == status.INTERRUPTED
    assert {Stopped(number).code for number in (signal.SIGTERM, signal.SIGUSR1)} == {status.PREEMPTED}
