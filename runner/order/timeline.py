"""Finds the phase of a step, and the global batch that it trains on where some batches are left out.

Left-out batches are pairs [first, last] of numbers from 1, both included: step k trains on the k-th remaining batch, so
the batch of a step stays a function of the config and the step.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate


class Timeline:
    """Successive phases, each of some steps; steps after the last phase belong to it.

    Example:
        >>> timeline = Timeline(["stable", "decay"], [6, 2])
        >>> [timeline.at(step) for step in (0, 5, 6, 7, 8)], timeline.inside(7)
        ([0, 0, 1, 1, 1], 1)
    """

    def __init__(self, names: Sequence[str], steps: Sequence[int]) -> None:
        self.names, self.steps = list(names), list(steps)
        self.ends = list(accumulate(steps))
        """The first step after each phase."""
        self.starts = [0, *self.ends[:-1]]
        """The first step of each phase, counted from 0."""

    def at(self, step: int) -> int:
        """Returns the index of the phase of a step, both counted from 0."""
        return min(bisect_right(self.ends, step), len(self.ends) - 1)

    def inside(self, step: int) -> int:
        """Returns the number of steps before `step` in the phase of `step`."""
        return step - self.starts[self.at(step)]

    def __len__(self) -> int:
        return len(self.ends)


Pairs = list[list[int]]


def merge(pairs: Iterable[Sequence[int]]) -> Pairs:
    """Returns the same global batches as pairs in order, with a gap between any two.

    Example:
        >>> merge([[7, 9], [1, 2], [3, 4], [8, 12]])
        [[1, 4], [7, 12]]
    """
    ranges: Pairs = []
    for first, last in sorted((int(first), int(last)) for first, last in pairs):
        if ranges and first <= ranges[-1][1] + 1:
            ranges[-1][1] = max(last, ranges[-1][1])
        else:
            ranges.append([first, last])
    return ranges


def number_of(step: int, pairs: Pairs) -> int:
    """Returns the number of the global batch that `step` trains on, both counted from 1; step 0 has number 0.

    Example:
        >>> [number_of(step, [[1, 1], [4, 5]]) for step in (1, 2, 3)]
        [2, 3, 6]
    """
    number = step
    for first, last in pairs if step else ():
        if first > number:
            break
        number += last - first + 1
    return number


def pairs_before(step: int, pairs: Pairs) -> Pairs:
    """Returns the pairs that lie before the global batch of `step`: runs that share them have trained the same so far.

    Example:
        >>> pairs_before(2, [[1, 1], [4, 5]]), pairs_before(3, [[1, 1], [4, 5]])
        ([[1, 1]], [[1, 1], [4, 5]])
    """
    number = number_of(step, pairs)
    return [pair for pair in pairs if pair[1] < number]
