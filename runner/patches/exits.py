"""The functions that Python runs at its end: `atexit` (Python 3.11 to 3.14) runs them on request in `_run_exitfuncs`.

A process that ends by `os._exit`, to leave out the teardown of libraries with threads, has to run them itself.
"""

import atexit


def run_exit_functions() -> None:
    """Runs and forgets what is registered with `atexit`."""
    atexit._run_exitfuncs()
