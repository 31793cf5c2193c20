"""Starts processes that find the same modules, end with their parent, skip Python's teardown, and outlast readers."""

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from tiryns.runner.patches.exits import run_exit_functions

PROGRAM = "from tiryns.runner.cli.commands import main; main()"
"""What `python -c` runs as the command."""

LAUNCHED = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT",
    "PL_GLOBAL_SEED",
)  # fmt: skip
LAUNCHERS = ("SLURM_", "TORCHELASTIC_", "PMI")
"""Environment variables, and prefixes of variables, that tell a process its rank. New ranks must not inherit them."""

SET_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of prctl(2)."""

SECONDS_BETWEEN_LOOKS = 0.5


def set_parent_death_signal(number: int) -> None:
    """Asks Linux to send this process a signal when the thread that started it ends; elsewhere nothing happens."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, number)


def end_with_parent(
    parent: int, end: Callable[[], None] = lambda: os.kill(os.getpid(), signal.SIGKILL)
) -> None:
    """Calls `end`, from a thread, once `parent` is no longer the parent of this process."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(SECONDS_BETWEEN_LOOKS)
        end()

    threading.Thread(target=watch, daemon=True, name="end with parent").start()


@contextlib.contextmanager
def without_teardown() -> Iterator[None]:
    """Ends this process after the block, with its exit functions but without Python's teardown.

    A library's thread that needs Python during a teardown, such as gloo's thread that frees a tensor, aborts the whole
    process. And triton 3.9 prints leaks of its own objects during a teardown.
    """
    status = 0
    try:
        yield
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
    except Exception:
        sys.excepthook(*sys.exc_info())
        status = 1
    run_exit_functions()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


class LastingStream:
    """A text stream that drops its output once the reader has closed the pipe.

    Example:
        >>> sys.stdout = LastingStream(sys.stdout)
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes, or drops the text; returns its length."""
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            self._drop()
            return len(text)

    def flush(self) -> None:
        """Flushes the stream, or drops its output if the reader has closed the pipe."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._drop()

    def _drop(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def outlast_readers() -> None:
    """Replaces standard output and error, so that a closed pipe does not end this process."""
    for name in ("stdout", "stderr"):
        if not isinstance(stream := getattr(sys, name), LastingStream):
            setattr(sys, name, LastingStream(stream))


def tells_rank(name: str) -> bool:
    """Whether an environment variable of this name gives a process its rank.

    Example:
        >>> tells_rank("SLURM_PROCID"), tells_rank("PATH")
        (True, False)
    """
    return name in LAUNCHED or name.startswith(LAUNCHERS)


def same_modules() -> list[str]:
    """Returns the flag `-P` for `python -m` if this process does not search the working folder for modules; else no flag.

    Without this flag a file beside a user's configs, such as `datasets.py`, would hide a library in the ranks only.
    """
    return [] if {"", os.getcwd()} & set(sys.path) else ["-P"]
