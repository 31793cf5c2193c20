"""The order audit: `order.txt` in the run folder has a line per step, with a hash of its global batch.

The hash (of sample ids, masked tokens and targets) is the same for any number of ranks, workers and micro-batches.
"""

from pathlib import Path
from typing import TextIO

from iolaus.runner.run.files import replacing

FILE_NAME = "order.txt"


class OrderLog:
    """Appends to `order.txt`; a resumed run drops the steps after its checkpoint and writes them again."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        self._file: TextIO | None = None

    def open_at(self, step: int) -> None:
        """Keeps the first `step` lines, and appends to them."""
        lines = _lines(self.path)[:step] if self.path.exists() else []
        with replacing(self.path) as temporary:
            temporary.write_text("".join(f"{line}\n" for line in lines))
        self._file = open(self.path, "a", buffering=1)  # noqa: SIM115  one line, one write

    def write(self, step: int, digest: str) -> None:
        """Adds the hash of a step, counted from 1."""
        assert self._file is not None
        self._file.write(f"{step} {digest}\n")

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def compare(first: Path, second: Path) -> str | None:
    """Describes the first step where two runs differ; None where one equals the beginning of the other.

    Raises:
        ValueError: a folder has no order log.
    """
    for folder in (first, second):
        if not (folder / FILE_NAME).is_file():
            why = "not a run folder, or the audit callback was off"
            raise ValueError(f"{str(folder)!r} has no {FILE_NAME}: {why}")
    for ours, theirs in zip(_lines(first / FILE_NAME), _lines(second / FILE_NAME), strict=False):
        if ours != theirs:
            step, our, their = ours.split()[0], ours.split()[-1], theirs.split()[-1]
            return f"step {step}: {first} trained on {our}, {second} on {their}"
    return None


def length(folder: Path) -> int:
    """Steps in a run's order log."""
    return len(_lines(folder / FILE_NAME))


def _lines(path: Path) -> list[str]:
    """The whole lines, without one that a kill has cut off."""
    return path.read_text().split("\n")[:-1]
