"""What Python does at its end: waits for threads, then runs functions (`threading._shutdown`, `atexit._run_exitfuncs`).

A process that ends by `os._exit`, to leave out the teardown of libraries with threads, has to ask for both itself
(Python 3.11 to 3.14).
"""

import atexit
import threading
from typing import Any

LIBRARY: Any = threading


def run_exit_functions() -> None:
    """Waits for threads that are no daemons, then runs and unregisters the functions of `atexit`."""
    LIBRARY._shutdown()
    atexit._run_exitfuncs()
