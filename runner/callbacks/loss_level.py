"""The level of a loss, and when the loss has left it: the rule of `callback.divergence`, without a trainer.

The *level* is the lowest median that any `window` losses in a row have had, those of the first steps included. The loss
has left it when the median of the last `window` losses is above `level + margin`, where the margin is the largest of

- `(factor - 1) x |level|`,
- `sigmas` standard deviations of the noise, by the differences of consecutive losses among the last 128 at the level,
- a third of the median of the first `window` losses, so that a loss which has come down to 0 may jump.

Six deviations over 128 steps are those of OLMo-core's `SkipStepOptimizer`. It judges single steps, which costs an update
where it is wrong; here a run would end, so medians are judged, which a few bad batches do not move, and the level is not
that of the last steps alone, which a slow climb would take along.
"""

from collections import deque
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from tiryns.runner.protocols import State

HISTORY = 128
"""Losses that the noise is taken from."""

LEAST_HISTORY = 40
"""With fewer losses behind the last `window` ones the noise is that of the first ones."""

SHARE_OF_FIRST = 1 / 3
"""A loss that has come down to 0 may jump so far, in medians of the first `window` losses."""

NORMAL_95 = 1.96
"""95 % of what is normally distributed lies within so many deviations; three spikes of 128 losses do not count."""


class Departure(NamedTuple):
    """A loss that has left its level."""

    median: float
    """Of the last `window` losses."""
    level: float


class LossLevel:
    """Takes the losses of a run one by one, from step `first` on.

    Example:
        >>> level = LossLevel(window=1, factor=2.0, sigmas=6.0)
        >>> [level.add(step, loss) is not None for step, loss in enumerate([8.3, 2.5, 8.3, 15.0], start=1)]
        [False, False, True, True]
        >>> level.since
        3
    """

    def __init__(self, window: int, factor: float, sigmas: float, first: int = 1) -> None:
        self.factor, self.sigmas = factor, sigmas
        self.since = first
        """The first step that may have moved the loss off its level, as far as is known by now."""
        self._first: list[float] = []
        self._lowest = float("inf")
        self._last: deque[tuple[int, float]] = deque(maxlen=window)
        self._history: deque[float] = deque(maxlen=HISTORY + 1)
        self._at_level = True

    def add(self, step: int, loss: float) -> Departure | None:
        """Adds the loss of a step; returns how far it is where it has left its level."""
        window = self._last.maxlen or 1
        if len(self._last) == window and self._at_level:
            self._history.append(self._last[0][1])
            self.since = self._last[0][0] + 1
        self._last.append((step, loss))
        if len(self._first) < window:
            self._first.append(loss)
            self._lowest = median(self._first)
            return None
        now = median(loss for _, loss in self._last)
        self._lowest = min(self._lowest, now)
        share = SHARE_OF_FIRST * abs(median(self._first))
        margin = max((self.factor - 1) * abs(self._lowest), share)
        self._at_level = now <= self._lowest + margin / 2
        if not self._at_level:  # the noise, which takes longest, counts only now
            # the standard deviation of the noise; neither a falling level nor a few spikes add to it
            losses = self._history if len(self._history) >= LEAST_HISTORY else self._first
            steps = sorted(abs(b - a) for a, b in pairwise(losses))
            deviation = steps[int(0.95 * len(steps))] / (NORMAL_95 * 2**0.5) if steps else 0.0
            margin = max(margin, self.sigmas * deviation)
            self._at_level = now <= self._lowest + margin / 2
        return None if now <= self._lowest + margin else Departure(now, self._lowest)

    def state_dict(self) -> State:
        """What the next loss is judged by, in plain values."""
        return {
            "first": list(self._first),
            "lowest": self._lowest,
            "last": [list(pair) for pair in self._last],
            "history": list(self._history),
            "since": self.since,
            "at_level": self._at_level,
        }

    def load_state_dict(self, state: State) -> None:
        """Goes on from a state; one of a version that knew the first losses alone begins anew behind them."""
        self._first = list(state["first"])[: self._last.maxlen]
        if "lowest" not in state:
            self._lowest = median(self._first) if self._first else self._lowest
            return
        self._lowest, self.since, self._at_level = state["lowest"], state["since"], state["at_level"]
        self._last.extend((step, loss) for step, loss in state["last"])
        self._history.extend(state["history"])
