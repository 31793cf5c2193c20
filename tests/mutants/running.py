"""Runs the tests nearest to a mutant, in a copy of the project, in a child process that finds torch already imported."""

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

LEFT_OUT = ("outputs", "site", "build", "dist", "__pycache__")
"""What is no source; nor is what begins with a dot, or is a virtual environment."""
HEAVY = ("torch", "lightning.pytorch", "transformers", "datasets", "torchmetrics", "hydra", "hypothesis")
"""What most tests import, and no mutant is in."""


DURATIONS = "durations.txt"
"""The name of the file, beside the copy, of the seconds that each test took."""


class Outcome(NamedTuple):
    """How the tests of a mutant ended."""

    passed: bool
    failure: str
    """The first test that failed; the last lines where there was none."""
    seconds: float


@contextlib.contextmanager
def copied(project: Path) -> Iterator[Path]:
    """A copy of the project's sources, which goes when the block is left, by Ctrl-C too."""

    def no_source(folder: str, names: list[str]) -> list[str]:
        return [
            name
            for name in names
            if name in LEFT_OUT or name.startswith(".") or (Path(folder) / name / "pyvenv.cfg").exists()
        ]

    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder) / "project"
        shutil.copytree(project, copy, symlinks=True, ignore=no_source)  # the package links to its folders
        yield copy


@contextlib.contextmanager
def changed(file: Path, text: str) -> Iterator[None]:
    """The file with another text; afterwards it is as it was, its time too, so that what was compiled still counts."""
    before, status = file.read_text(), file.stat()
    file.write_text(text)
    try:
        yield
    finally:
        file.write_text(before)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def import_heavy() -> None:
    """Imports what the children shall not have to, as far as it is installed; with one thread, as the tests have it."""
    os.environ |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    for name in HEAVY:
        with contextlib.suppress(ImportError):
            __import__(name)


def run_tests(project: Path, tests: Sequence[str], limit: float, compiled: bool = False) -> Outcome:
    """Runs tests of the project in a child until the first fails; one that takes over `limit` seconds has failed.

    `compiled`: keeps the compiled files for later runs; not to be done for a mutant.
    """
    log = project.parent / "log.txt"
    (project.parent / DURATIONS).unlink(missing_ok=True)
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        try:
            _run_in_child(project, tests, log, compiled)
        finally:
            os._exit(70)
    try:
        status = _wait(child, began + limit)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
    seconds = time.monotonic() - began
    if status is None:
        os.waitpid(child, 0)
        return Outcome(False, f"no end after {limit:.0f} s", seconds)
    return Outcome(status == 0, _failure(log.read_text(errors="replace")), seconds)


def _wait(child: int, until: float) -> int | None:
    """The exit status of a child; None where it goes on for too long."""
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    return None


def seconds_of(project: Path, tests: Sequence[str]) -> float:
    """How long these tests took in the last run."""
    lines = (project.parent / DURATIONS).read_text().splitlines()
    noted = [line.rpartition("\t") for line in lines]
    return sum(float(seconds) for name, _, seconds in noted if name.startswith(tuple(tests)))


def _failure(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    failed = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
    return failed[0].partition(" ")[2].partition(" - ")[0] if failed else " | ".join(lines[-3:])


class InOrder:
    """Keeps tests in the order they are named in, whatever the project's own settings say, and notes what each takes."""

    def __init__(self, tests: Sequence[str], durations: Path) -> None:
        self.tests, self.durations = tests, durations

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Sorts by the first name that fits."""
        items.sort(key=lambda item: next(i for i, t in enumerate(self.tests) if item.nodeid.startswith(t)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds a line for each part of a test."""
        with open(self.durations, "a") as file:
            file.write(f"{report.nodeid}\t{report.duration}\n")


def _run_in_child(project: Path, tests: Sequence[str], log: Path, compiled: bool) -> None:
    """Runs pytest on the copy as if this process had been started in it; does not come back."""
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    os.chdir(project)
    sources = {file.stem for file in project.iterdir()}
    for name in [name for name in sys.modules if name.partition(".")[0] in sources]:
        del sys.modules[name]
    sys.path.insert(0, str(project))
    sys.dont_write_bytecode = not compiled
    os.environ |= {"PYTHONPATH": str(project), "HYPOTHESIS_PROFILE": "mutants"}
    if not compiled:
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    options = ["-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=line"]
    code = pytest.main([*options, *tests], plugins=[InOrder(tests, log.with_name(DURATIONS))])
    sys.stdout.flush()
    os._exit(int(code))
