"""Which phase of a run a step is in."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate


class Timeline:
    """Phases one after the other, each of some steps; what comes after the last one belongs to it.

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
        """The place of the phase of a step, both counted from 0."""
        return min(bisect_right(self.ends, step), len(self.ends) - 1)

    def inside(self, step: int) -> int:
        """The steps of its phase before a step."""
        return step - self.starts[self.at(step)]

    def __len__(self) -> int:
        return len(self.ends)
