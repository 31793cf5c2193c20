"""A stopping signal ends a rank that sits in a call of a library, and leaves one alone that handles it."""

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

WAITING = """
import ctypes, os, signal, sys, threading, time
from tiryns.runner.run import signals
signals.SECONDS_TO_RETURN = 0.5
with signals.stoppable():
    signals.end_where_blocked()
    signals.defer(True)
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGTERM)).start()  # when the main thread waits, below
    if sys.argv[1] == "blocked":
        mutex = ctypes.create_string_buffer(64)
        ctypes.CDLL(None).pthread_mutex_lock(mutex)
        ctypes.CDLL(None).pthread_mutex_lock(mutex)  # for ever, whatever signal comes
    deadline = time.monotonic() + 4
    while time.monotonic() < deadline:
        time.sleep(0.05)
os._exit(7)
"""

SAVING = """
import os, signal, threading, time
from tiryns.runner.run import signals
signals.SECONDS_TO_RETURN = 0.2
answered = threading.Semaphore(0)
with signals.stoppable():
    signals.end_where_blocked(answered.release)
    signals.defer(True)
    for seconds in (0, 0.05, 1):  # the last one comes when a call of a library would have had to return
        time.sleep(seconds)
        os.kill(os.getpid(), signal.SIGTERM)
        if not answered.acquire(timeout=5):
            os._exit(1)
os._exit(7)
"""


@pytest.mark.parametrize(
    ("script", "status"), [([SAVING], 7), ([WAITING, "blocked"], 143), ([WAITING, "working"], 7)]
)
def test_rank_that_no_handler_reaches_is_ended(script: list[str], status: int) -> None:
    """A cluster signals ranks and agent at once, and the agent signals the ranks again and waits for an answer."""
    command = [sys.executable, "-c", *script]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=60, check=False)
    assert done.returncode == status
