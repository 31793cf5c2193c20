"""Handles the signals that ask a run to stop.

While a run trains (`defer`), the ranks agree on a signal at the end of a step, save and stop together
(`runner.callbacks.stopping`); at any other time a signal ends the run at once. Both raise `Stopped`.
"""

import contextlib
import faulthandler
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from tiryns.runner.run.command import status
from tiryns.runner.run.command.lifetime import set_parent_death_signal

STOPPING = (
    signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip
"""Ctrl-C, Ctrl-\\, `kill`, a closed terminal, and the warnings that SLURM sends before it ends or preempts a job."""

SECONDS_TO_RETURN = 18.0
"""How long after a stopping signal a rank may stay within one call of a library."""

COMMAND_PROCESS = "TIRYNS_COMMAND_PROCESS"
"""Environment variable with the process id of the command line; in a rank, of the agent that started it."""

_first_signal: int | None = None
_heard = False
_is_deferred = False
_owner = 0
_before: dict[int, Any] = {}


class Stopped(SystemExit):
    """Ends the process because of a signal; no error, so `except Exception` does not catch it."""

    def __init__(self, number: int, saved: bool = False) -> None:
        super().__init__(number, saved)
        self.number, self.saved = number, saved
        self.code = status.INTERRUPTED if number == signal.SIGINT else status.PREEMPTED
        self.state = "interrupted" if number == signal.SIGINT else "preempted"
        """The state for `status.json`: `interrupted` (by a person), `preempted`, or `killed` (without saving)."""
        self.why = f"stopped by {signal.Signals(number).name}"

    def __str__(self) -> str:
        return self.why


@contextlib.contextmanager
def shield_processes() -> Iterator[None]:
    """Blocks the stopping signals for processes started inside; SLURM sends them to every process of a job."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def handlers_kept(*numbers: int) -> Iterator[dict[int, Any]]:
    """Yields this process's handlers of signals, by default of `STOPPING`, and restores them after the block."""
    handlers = {number: signal.getsignal(number) for number in numbers or STOPPING}
    try:
        yield handlers
    finally:
        for number, handler in handlers.items():
            if handler is not None:
                signal.signal(number, handler)


@contextlib.contextmanager
def _handle_signals(
    handler: Callable[[int, FrameType | None], None], *numbers: int
) -> Iterator[dict[int, Any]]:
    """Sets a signal handler for the block, and yields the earlier handlers; ignored signals (`nohup`) stay ignored."""
    with handlers_kept(*numbers) as before:
        for number, earlier in before.items():
            if earlier not in (signal.SIG_IGN, None):
                signal.signal(number, handler)
        yield before


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Handles the stopping signals inside the block."""
    global _first_signal, _is_deferred, _owner, _before
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    outer = _before
    _first_signal, _is_deferred, _owner = None, False, os.getpid()
    try:
        with _handle_signals(_handle, *STOPPING) as _before:
            yield
    finally:
        _first_signal, _is_deferred, _before = None, False, outer


@contextlib.contextmanager
def forwarding() -> Iterator[None]:
    """Sends SIGTERM to the command's workers (joblib's) at SIGTERM or SIGHUP; raises `Stopped` if there are none."""

    def forward(number: int, frame: FrameType | None) -> None:
        lists = Path(f"/proc/{os.getpid()}/task").glob("*/children")  # none on other systems
        workers = [int(worker) for file in lists for worker in file.read_text().split()]
        for worker in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGTERM)
        if not workers:
            raise Stopped(number)

    os.environ[COMMAND_PROCESS] = str(os.getpid())
    with _handle_signals(forward, signal.SIGTERM, signal.SIGHUP):
        yield


@contextlib.contextmanager
def ending_with_command() -> Iterator[None]:
    """Sends SIGTERM to a worker process, such as joblib's, when the command dies (Linux)."""
    worker = os.environ.get(COMMAND_PROCESS) == str(os.getppid())
    if worker:
        set_parent_death_signal(signal.SIGTERM)
    try:
        yield
    except Stopped:
        if worker and os.environ[COMMAND_PROCESS] != str(os.getppid()):
            os._exit(status.PREEMPTED)  # nobody takes the result, and a next job must not begin
        raise


def end_where_blocked(answer: Callable[[], object] = lambda: None) -> None:
    """Ends this process, unsaved, if a stopping signal finds its main thread in a call that does not return.

    A rank that waits for a dead rank hangs in such a call, in which Python runs no handler. Another thread calls `answer`
    at once for every such signal: an agent that has passed on a signal of the cluster learns that it has arrived.
    """
    ending, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)

    def watch() -> None:
        until: float | None = None
        while True:
            timeout = None if until is None else max(0.0, until - time.monotonic())
            if select.select([ending], [], [], timeout)[0]:
                if os.read(ending, 1)[0] in STOPPING:
                    until = until or time.monotonic() + SECONDS_TO_RETURN
                    answer()
            elif _heard:
                until = None
            else:
                faulthandler.dump_traceback(all_threads=True)
                os._exit(status.UNSAVED)

    threading.Thread(target=watch, daemon=True, name="end where blocked").start()


def first() -> int | None:
    """Returns the first stopping signal received, or None."""
    return _first_signal


def defer(deferred: bool) -> None:
    """Starts or ends the deferral of signals; at its end raises Stopped if a signal came meanwhile."""
    global _is_deferred
    _is_deferred = deferred
    if not deferred and _first_signal is not None:
        raise Stopped(_first_signal)


def handler_before(number: int) -> Any:
    """Returns the handler that a signal had before `stoppable`, such as submitit's."""
    return _before.get(number)


def _handle(number: int, frame: FrameType | None) -> None:
    global _first_signal, _heard
    _heard = True
    if os.getpid() != _owner:  # a forked worker without handlers of its own yet
        if not _is_deferred:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        return
    if _first_signal is None:
        _first_signal = number
        if not _is_deferred:
            raise Stopped(number)
    elif number == signal.SIGINT:
        raise KeyboardInterrupt
