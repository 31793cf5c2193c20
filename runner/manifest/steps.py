"""`digests.txt` of a run: digests of its state at some steps, one line each, to compare it with another run."""

from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from tiryns.runner.run.audit import whole_lines

FILE_NAME = "digests.txt"

MOST = 1000
"""Most steps of a `digests.txt` that a manifest keeps; if there are more, it keeps evenly spread ones up to the last."""


class Step(NamedTuple):
    """The loss of a run, and the digests of its order and states, after `step` steps."""

    step: int
    order: str
    """Digest of the hashes of all global batches so far; `-` for data without global batches."""
    loss: str
    """Loss of the step, as Python writes a float in full; `-` if the module returns none."""
    states: tuple[str, ...]
    """Digest of the weights, and of each optimizer's state."""

    def line(self) -> str:
        """Returns the line of the file.

        Example:
            >>> Step(5, "0d4f", "7.25", ("fdac", "27a5")).line()
            '5 0d4f 7.25 fdac 27a5'
        """
        return " ".join((str(self.step), self.order, self.loss, *self.states))


def chain_digest(before: str, order: str) -> str:
    """Returns the digest of all global batches up to a batch, from the digest before the batch and the batch's hash."""
    return blake2b(f"{before} {order}".encode(), digest_size=8).hexdigest()


def steps_of(lines: Iterable[str]) -> list[Step]:
    """Returns the steps in lines that `Step.line` has made; skips other lines."""
    words = [line.split(" ") for line in lines]
    whole = [one for one in words if len(one) > 3 and one[0].isdecimal()]
    return [Step(int(number), order, loss, tuple(states)) for number, order, loss, *states in whole]


def read_steps(folder: Path) -> list[Step]:
    """Returns the steps in the `digests.txt` of a run folder; empty if there is no file."""
    return steps_of(whole_lines(folder / FILE_NAME))


def kept_lines(folder: Path) -> list[str]:
    """Returns at most `MOST` lines of a run's `digests.txt`, for the run's manifest."""
    lines = whole_lines(folder / FILE_NAME)
    every = -(-len(lines) // MOST) or 1
    return lines[::-1][::every][::-1]
