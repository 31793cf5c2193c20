"""The command line in the process of the tests: as a user calls it, without the seconds that a new process takes."""

import contextlib
import io
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hydra.core.global_hydra import GlobalHydra

from tests.support.processes import WarmPopen
from tiryns.runner.cli.commands import main


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def tiryns_here(cwd: Path, *arguments: str) -> Done:
    """`tiryns ARGUMENTS`, typed in the folder `cwd`."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with _as_typed(cwd, arguments), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
            if isinstance(ended.code, str):
                print(ended.code, file=sys.stderr)
    return Done(code, out.getvalue(), err.getvalue())


def succeeded(cwd: Path, *arguments: str) -> Done:
    """`tiryns_here` of a command that must succeed."""
    done = tiryns_here(cwd, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def refused(cwd: Path, *arguments: str) -> str:
    """Returns the message of a command that must end with an error, and without a traceback."""
    done = tiryns_here(cwd, *arguments)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr


@contextlib.contextmanager
def _as_typed(cwd: Path, arguments: tuple[str, ...]) -> Iterator[None]:
    """This process as one that has just been started with these words; afterwards as it was."""
    before = sys.argv, os.environ.copy(), Path.cwd()
    root, handlers, level = logging.getLogger(), list(logging.getLogger().handlers), logging.getLogger().level
    GlobalHydra.instance().clear()
    sys.argv = ["tiryns", *arguments]
    os.chdir(cwd)
    popen, subprocess.Popen = subprocess.Popen, WarmPopen  # type: ignore[misc]
    try:
        with warnings.catch_warnings():
            yield
    finally:
        sys.argv, subprocess.Popen = before[0], popen  # type: ignore[misc]
        os.environ.clear()
        os.environ.update(before[1])
        os.chdir(before[2])
        GlobalHydra.instance().clear()
        for handler in [handler for handler in root.handlers if handler not in handlers]:
            root.removeHandler(handler)
            handler.close()
        root.setLevel(level)
