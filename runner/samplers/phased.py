"""The global batches of a run whose phases draw from several sets of samples, or in batches of other sizes."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.order.mixture import MixedDraws
from tiryns.runner.order.timeline import Timeline
from tiryns.runner.samplers.base import Fingerprint, SeamlessSampler
from tiryns.runner.samplers.mixed import Mixed, _InTurn

PHASES = "phases"
"""Entry of a fingerprint with the differences of each phase from the run."""


class Draws(NamedTuple):
    """The draws of a phase: from which sets, for how many steps, in which batch sizes.

    Example:
        >>> Draws(steps=40, sources=(0, 2), parts=(7, 3), shares={"books@512": "7/10", "web@512": "3/10"}).fingerprint()
        {'steps': 40, 'draws': {'books@512': '7/10', 'web@512': '3/10'}}
    """

    steps: int
    sources: tuple[int, ...]
    """The sets of samples, as indices into the sets of the run."""
    parts: tuple[int, ...]
    """Number of draws from each of the `sources` in a period; see `runner.order.mixture`."""
    shares: dict[str, str] | None = None
    """The shares for the fingerprint; None if the phase draws like the run."""
    sampler: SeamlessSampler | None = None
    """Gives the batch sizes of the phase, counted from its first batch; None: batch sizes of the run."""

    def fingerprint(self) -> Fingerprint:
        """Returns the steps of the phase, and the settings in which it differs from the run."""
        settings = self.sampler.fingerprint() if self.sampler else {}
        keys = ("global_batch_size", "batch_warmup")
        sizes = {name: settings[name] for name in keys if name in settings}
        return {"steps": self.steps, **sizes, **({"draws": self.shares} if self.shares else {})}


class Phased(_InTurn[SeamlessSampler | Mixed]):
    """Each step draws by its phase; each set of samples continues where the previous phase stopped.

    `whole` is the order of the run without phases: it gives the length, and the batch sizes of phases without
    their own. `orders` are the orders of the sets of samples, which are numbered one after the other. Successive phases
    with the same shares draw as if they were one phase: phases that change nothing change no batch.

    Example:
        >>> from tiryns.runner.samplers import Sequential
        >>> settings = dict(num_epochs=None, num_batches=4, global_batch_size=2, seed=0)
        >>> books, web = (Sequential(range(size), **settings) for size in (5, 9))
        >>> sampler = Phased(books, [books, web], [Draws(2, (0,), (1,)), Draws(2, (0, 1), (1, 1))])
        >>> [sampler.global_batch(step)[:, 1].tolist() for step in range(4)]
        [[0, 1], [2, 3], [4, 5], [0, 6]]
    """

    def __init__(
        self, whole: SeamlessSampler | Mixed, orders: Sequence[SeamlessSampler], phases: Sequence[Draws]
    ) -> None:
        super().__init__(whole, orders)
        self.phases = list(phases)
        self.timeline = Timeline([""] * len(self.phases), [phase.steps for phase in self.phases])
        self._draws = [MixedDraws(phase.parts) for phase in self.phases]
        self._samples = [0]
        """Number of samples before each phase, and in the whole run."""
        self._before: list[tuple[int, NDArray[np.int64]]] = []
        """For each phase: the draws of the phases that it continues, and the draws from each set before those phases."""
        num_draws, counts = 0, np.zeros(len(orders), np.int64)
        for place, phase in enumerate(self.phases):
            if place and phase[1:3] != self.phases[place - 1][1:3]:
                counts = self._counts(place - 1, num_draws)
                num_draws = 0
            self._before.append((num_draws, counts))
            samples = self._within(place, phase.steps)
            self._samples.append(self._samples[-1] + samples)
            num_draws += samples

    def global_batch(self, step: int) -> NDArray[np.int64]:
        self.check_step(step)
        place, inside = self.timeline.at(step), self.timeline.inside(step)
        first, stop = (self._before[place][0] + self._within(place, inside + more) for more in (0, 1))
        sources = np.array(self.phases[place].sources)[self._draws[place].sources(first, stop)]
        return self.in_turn(sources, self._counts(place, first))

    def counts(self, step: int) -> NDArray[np.int64]:
        """Returns the number of samples drawn from each set before `step`, int64 [S]."""
        place = self.timeline.at(step)
        return self._counts(place, self._before[place][0] + self._within(place, self.timeline.inside(step)))

    def parts_at(self, step: int) -> NDArray[np.int64]:
        """Returns the number of draws from each set in a period of the phase of `step`, int64 [S]."""
        phase, parts = self.phases[self.timeline.at(step)], np.zeros(len(self.orders), np.int64)
        parts[list(phase.sources)] = phase.parts
        return parts

    def samples_before(self, step: int) -> int:
        place = self.timeline.at(step)
        return self._samples[place] + self._within(place, self.timeline.inside(step))

    def steps_within(self, samples: int) -> int:
        """Returns the largest number of first global batches that together have at most `samples` samples."""
        place = min(bisect_right(self._samples, samples), len(self.phases)) - 1
        start, rest = self.timeline.starts[place], samples - self._samples[place]
        sampler = self.phases[place].sampler
        if sampler is not None:
            return start + sampler.steps_within(rest)
        return self.sampler.steps_within(self.sampler.samples_before(start) + rest)

    def epochs_before(self, step: int) -> float:
        """Returns the passes before a step, summed over phases: each phase's samples over the size of its sets."""
        samples = dict.fromkeys((phase.sources for phase in self.phases), 0)
        for place, phase in enumerate(self.phases[: self.timeline.at(step) + 1]):
            end = min(step, self.timeline.ends[place]) if place + 1 < len(self.phases) else step
            samples[phase.sources] += self._within(place, end - self.timeline.starts[place])
        return sum(count / int(self.sizes[list(places)].sum()) for places, count in samples.items())

    def fingerprint(self) -> Fingerprint:
        return {**self.sampler.fingerprint(), PHASES: [phase.fingerprint() for phase in self.phases]}

    def begun(self, step: int) -> Fingerprint:
        """Returns the fingerprint of the first `step` batches: without later phases and the length of the present one.

        Leaves out all phases as long as every phase that has begun equals the run.
        """
        last = self.timeline.at(step - 1) if step else -1
        records = [phase.fingerprint() for phase in self.phases[: last + 1]]
        for phase in records[-1:]:
            del phase["steps"]
        as_the_run = all(set(phase) <= {"steps"} for phase in records)
        entries = {} if as_the_run else {f"{PHASES}[{place}]": phase for place, phase in enumerate(records)}
        return {**self.sampler.fingerprint(), **entries}

    def _within(self, place: int, inside: int) -> int:
        """Returns the number of samples in the first `inside` batches of phase number `place`."""
        sampler, start = self.phases[place].sampler, self.timeline.starts[place]
        if sampler is not None:
            return sampler.samples_before(inside)
        return self.sampler.samples_before(start + inside) - self.sampler.samples_before(start)

    def _counts(self, place: int, draw: int) -> NDArray[np.int64]:
        """Returns the samples of each set, int64 [S], before draw `draw` of a phase, counted over joined phases."""
        counts = self._before[place][1].copy()
        counts[list(self.phases[place].sources)] += self._draws[place].counts(draw)
        return counts
