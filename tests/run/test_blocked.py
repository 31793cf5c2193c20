"""A stopping signal ends a rank that sits in a call of a library, and leaves one alone that handles it."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.conftest import ROOT

WAITING = """
import ctypes, os, sys, time
from iolaus.runner.run import signals
signals.SECONDS_TO_RETURN = 0.5
with signals.stoppable():
    signals.end_where_blocked()
    signals.defer(True)
    print("waiting", flush=True)
    if sys.argv[1] == "blocked":
        mutex = ctypes.create_string_buffer(64)
        ctypes.CDLL(None).pthread_mutex_lock(mutex)
        ctypes.CDLL(None).pthread_mutex_lock(mutex)  # for ever, whatever signal comes
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        time.sleep(0.05)
os._exit(7)
"""


def ended(how: str) -> tuple[int, float]:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING, how], env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    return process.wait(timeout=20), time.monotonic() - began


@pytest.mark.parametrize(("how", "status"), [("blocked", 143), ("working", 7)])
def test_rank_that_no_handler_reaches_is_ended(how: str, status: int) -> None:
    got, seconds = ended(how)
    assert got == status
    assert seconds < 15
