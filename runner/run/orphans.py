"""Ends processes whose parent has died, however it died."""

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

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
