"""`train.log`: the messages of a run, its metrics step by step, and why it failed."""

import tempfile
import traceback
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from tiryns.runner.run.errors import defect_message, explain
from tiryns.runner.run.redaction import redact

NAME = "train.log"
"""The file in the run folder; the program's warnings go there too."""


def append(folder: Path, lines: Iterable[str]) -> None:
    """Adds lines to the log of a run folder, with the time before the first line and with secrets removed.

    Example:
        >>> append(Path("outputs/run"), ["step 10: train/loss 3.2"])  # doctest: +SKIP
    """
    text = redact("\n".join(lines))
    with (folder / NAME).open("a", encoding="utf-8") as file:
        file.write(f"{datetime.now():%Y-%m-%d %H:%M:%S} {text}\n")


def append_traceback(folder: Path) -> None:
    """Adds the exception that is being handled, with its traceback, to the log; does nothing before the run has begun."""
    if (folder / "status.json").exists():
        append(folder, traceback.format_exc().rstrip().splitlines())


def message_of(error: Exception, folder: Path | None = None) -> str:
    """Returns the one line that a command ends with; for an unforeseen error it names the file with the traceback.

    This file is the log of the run in `folder`, or a new temporary file if no run has begun.

    Example:
        >>> message_of(ValueError("optimizer.lr=-1: it must be a number, 0 or more"))
        'optimizer.lr=-1: it must be a number, 0 or more'
    """
    if (message := explain(error)) is not None:
        return message
    if folder is not None and (folder / "status.json").exists():
        return defect_message(error, folder / NAME)
    number, name = tempfile.mkstemp(prefix="tiryns-", suffix=".log", text=True)
    with open(number, "w", encoding="utf-8") as file:
        file.write(redact("".join(traceback.format_exception(error))))
    return defect_message(error, Path(name))
