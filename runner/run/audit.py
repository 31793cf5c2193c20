"""The order audit: `order.txt` in the run folder has a line per step, with a hash of its global batch.

The hash (of sample ids, masked tokens and targets) is the same for any number of ranks, workers and micro-batches.
"""

from pathlib import Path
from typing import NamedTuple, TextIO

from tiryns.runner.run.files import replacing

FILE_NAME = "order.txt"


class Difference(NamedTuple):
    """The first step where two runs differ, and the hash of its global batch in each."""

    step: int
    hashes: tuple[str, str]


def compare(first: Path, second: Path) -> Difference | None:
    """Returns the first step where two runs differ, or None; raises ValueError where a folder has no order log."""
    for folder in (first, second):
        if not (folder / FILE_NAME).is_file():
            why = "not a run folder, or the audit callback was off"
            raise ValueError(f"{str(folder)!r} has no {FILE_NAME}: {why}")
    for line, other in zip(whole_lines(first / FILE_NAME), whole_lines(second / FILE_NAME), strict=False):
        if line != other:
            return Difference(int(line.split()[0]), (line.split()[-1], other.split()[-1]))
    return None


def order_hash(high: float, low: float) -> str:
    """Returns a global batch's hash, from the sums of the high halves and of the low halves of its documents' hashes."""
    return f"{int(high) % 2**24:06x}{int(low) % 2**24:06x}"


def length(folder: Path) -> int:
    """Returns the number of steps in a run's order log."""
    return len(whole_lines(folder / FILE_NAME))


def whole_lines(path: Path) -> list[str]:
    """Returns the lines of an order log, except one that a kill cut off; empty without a file. ValueError if damaged."""
    lines = path.read_text(errors="replace").split("\n")[:-1] if path.exists() else []
    if lines and not lines[0].split(" ")[0].isdecimal():
        raise ValueError(f"{str(path)!r} is damaged: its first line begins with no step: {lines[0]!r:.60}")
    return lines


def open_at(path: Path, step: int) -> TextIO:
    """Opens a log to append whole lines, after removing lines of steps after `step`; each line begins with its step."""
    pairs = ((line.partition(" ")[0], line) for line in whole_lines(path))
    lines = [f"{line}\n" for number, line in pairs if number.isdecimal() and int(number) <= step]
    with replacing(path) as temporary:
        temporary.write_text("".join(lines))
    return path.open("a", buffering=1)  # one line, one write
