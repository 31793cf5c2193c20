"""Removes the temporary files that killed processes of a run have left in its folder."""

import contextlib
import os
import re
import shutil
from pathlib import Path

MEETING = ".rendezvous"
"""In the run folder: what the agents of several nodes know of each other."""

PATTERNS = (".*.tmp", ".*.gone", ".heartbeat-*", ".rank-error")
"""What is being written and what is being deleted in a run folder and among its checkpoints, and what ranks leave."""


def clear_leftovers(run: Path) -> None:
    """Removes what no living process can be at work on; only for the process that holds the lock of the run folder.

    Example:
        >>> with folder.lock():
        ...     clear_leftovers(folder.path)
    """
    shutil.rmtree(run / MEETING, ignore_errors=True)
    for path in [
        path for folder in (run, run / "checkpoints") for one in PATTERNS for path in folder.glob(one)
    ]:
        if not _is_of_living(path):
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _is_of_living(path: Path) -> bool:
    """Whether the process that a name such as `.status.json.123.tmp` tells is alive on this machine."""
    found = re.search(r"\.(\d+)\.tmp$", path.name)
    if found is None:
        return False
    try:
        os.kill(int(found[1]), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's
        pass
    return True
