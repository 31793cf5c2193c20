"""The learning rate as a closed form of the step: a warm-up to the base rate, training, and a cool-down.

Each phase starts where the one before ended and falls along a shape g over its n steps; a warm-up reverses the shape.

    constant      g(s) = d                               d, a factor; 1 in a phase that follows another
    linear        g(s) = 1 - (1 - d) s/n                 d, the end factor (of a warm-up: the start factor)
    cosine        g(s) = d + (1 - d)(1 + cos(pi s/n))/2  d, the end factor
    exponential   g(s) = d^s                             d, the factor per step
    inverse_sqrt  g(s) = 1 - (1 - d) sqrt(s/n)           d, the end factor (arXiv 2405.18392 has d = 0)
"""

import math
from dataclasses import dataclass
from typing import Literal

from tiryns.conf.values import Settings, check_choice, count_of

KINDS = ("constant", "linear", "cosine", "exponential", "inverse_sqrt")
"""The kinds of phases."""

TOKENS = {"warmup_tokens": "warmup_steps", "cooldown_tokens": "cooldown_steps"}
"""Lengths in tokens, with the lengths in steps that they become when a run begins."""

PhaseName = Literal["warmup", "training", "cooldown"]

Steps = int | float
"""A number of optimizer steps, or a fraction of max_steps strictly between 0 and 1."""


def curve(kind: str, step: float, num_steps: int, decay: float) -> float:
    """Returns the falling shape g(step) of a phase of num_steps (> 0) steps."""
    if kind == "constant":
        return decay
    if kind == "exponential":
        return float(decay**step)
    progress = min(max(step / num_steps, 0.0), 1.0)
    if kind == "linear":
        # a weighted mean, so that both ends are exact
        return (1.0 - progress) + decay * progress
    if kind == "cosine":
        return decay + (1.0 - decay) * 0.5 * (1.0 + math.cos(math.pi * progress))
    return 1.0 - (1.0 - decay) * math.sqrt(progress)


def check_kind(kind: str, where: str) -> str:
    """Returns the kind as spelled in `KINDS` (accepts `inverse-sqrt` too); raises ValueError for an unknown kind."""
    name = str(kind).replace("-", "_")
    check_choice(where, name, KINDS)
    return name


def check_decay(kind: str, decay: float, where: str) -> float:
    """Returns the decay if it is valid for its kind; raises ValueError otherwise."""
    decay = float(decay)
    lowest_allowed = kind in ("linear", "cosine", "inverse_sqrt")
    if not (0.0 <= decay <= 1.0) or (decay == 0.0 and not lowest_allowed):
        meaning = {"exponential": "the factor per step", "constant": "the factor"}.get(kind, "the end factor")
        interval = "[0, 1]" if lowest_allowed else "(0, 1]"
        raise ValueError(f"{where}={decay:g} is {meaning} of a {kind} phase and must lie in {interval}.")
    return decay


def count_steps(steps: Steps, max_steps: int | None, where: str) -> int:
    """Returns a number of steps from a number or a fraction of max_steps; raises ValueError for other values."""
    number = isinstance(steps, int | float) and not isinstance(steps, bool) and 0 <= steps < math.inf
    if number and 0 < steps < 1:
        if max_steps is None:
            raise ValueError(
                f"{where}={steps} is a fraction of max_steps, which is not known; give a number."
            )
        return int(steps * max_steps + 1e-9)
    if not number or steps != int(steps) or (isinstance(steps, float) and steps == 1.0):
        raise ValueError(
            f"{where}={steps!r} is neither a whole number nor a fraction between 0 and 1: give steps, 0 for none, or a "
            "fraction of max_steps."
        )
    return int(steps)


@dataclass(frozen=True)
class Phase:
    """One phase, ready to evaluate: steps [start, start + num_steps) at `level` times its shape."""

    name: PhaseName
    kind: str
    start: int
    num_steps: int | None
    """The length in steps; None for a phase without end."""
    decay: float
    level: float
    """The factor at which a falling phase starts, or at which a warm-up ends."""

    def factor(self, step: int) -> float:
        """Returns the factor at a step of the run, which is not before the phase; after it the factor is constant."""
        inside = step - self.start
        if self.num_steps is not None:
            inside = min(inside, self.num_steps)
            inside = self.num_steps - inside if self.name == "warmup" else inside
        return self.level * curve(self.kind, inside, self.num_steps or 1, self.decay)

    @property
    def end(self) -> int | None:
        """Returns the first step after the phase; None for a phase without end."""
        return None if self.num_steps is None else self.start + self.num_steps


class ThreePhaseSchedule:
    """The three phases as one function of the step.

    Steps are whole numbers, or fractions of max_steps; with training_steps = -1 the middle phase lasts until max_steps
    less the cool-down. Raises ValueError for an unknown kind, a decay out of range, phases longer than max_steps, and a
    cool-down without a start.

    Example:
        >>> schedule = ThreePhaseSchedule(warmup_steps=2, cooldown_steps=0.25, max_steps=8)
        >>> [schedule.factor(step) for step in range(9)]
        [0.0, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.0]
    """

    def __init__(
        self,
        warmup_kind: str = "linear",
        warmup_steps: Steps = 0,
        warmup_decay: float = 0.0,
        training_kind: str = "constant",
        training_steps: Steps = -1,
        training_decay: float = 1.0,
        cooldown_kind: str = "linear",
        cooldown_steps: Steps = 0,
        cooldown_decay: float = 0.0,
        max_steps: int | None = None,
    ) -> None:
        if max_steps is not None and max_steps < 1:
            raise ValueError(f"max_steps={max_steps} must be at least 1, or None where it is not known.")
        self.max_steps = max_steps
        warmup = count_steps(warmup_steps, max_steps, "warmup_steps")
        cooldown = count_steps(cooldown_steps, max_steps, "cooldown_steps")
        exact = sum(n * (max_steps or 0) if 0 < n < 1 else n for n in (warmup_steps, cooldown_steps))
        training = self._training_steps(training_steps, warmup, cooldown, exact)
        self.phases = _chain(
            ("warmup", warmup_kind, warmup, warmup_decay),
            ("training", training_kind, training, training_decay),
            ("cooldown", cooldown_kind, cooldown, cooldown_decay),
        )
        end = self.num_steps
        if max_steps and end and end < max_steps and self.factor(end) == 0.0:
            raise ValueError(
                f"The schedule ends with a rate of 0 at step {end}, but max_steps={max_steps}: the last "
                f"{max_steps - end} steps would train nothing. Set training_steps=-1 or max_steps={end}."
            )

    @classmethod
    def of(cls, settings: Settings, max_steps: int | None) -> "ThreePhaseSchedule":
        """Returns the schedule of the settings of `scheduler`; lengths in tokens that are not yet steps count as 0."""
        fields = {name: value for name, value in settings.items() if name != "_target_"}
        for tokens, steps in TOKENS.items():
            if fields.pop(tokens, None) is not None:
                fields[steps] = 0
        return cls(**fields, max_steps=max_steps)

    def _training_steps(self, steps: Steps, warmup: int, cooldown: int, exact: float) -> int | None:
        if steps == -1 and self.max_steps is None:
            if cooldown:
                raise ValueError(f"cooldown_steps={cooldown} needs a start: set training_steps or max_steps.")
            return None
        if steps == -1:
            training = (self.max_steps or 0) - warmup - cooldown
        elif (training := count_steps(steps, self.max_steps, "training_steps")) != steps:
            # a fraction: it also takes what rounding cut off the other two
            training = int(exact + steps * (self.max_steps or 0) + 1e-9) - warmup - cooldown
        total = warmup + max(training, 0) + cooldown
        if self.max_steps is not None and total > self.max_steps:
            raise ValueError(
                f"a warm-up of {warmup}, training of {max(training, 0)} and a cool-down of {cooldown} steps, {total} "
                f"steps together, do not fit into max_steps={self.max_steps}; training_steps=-1 takes the rest."
            )
        return training

    def describe(self) -> str:
        """Returns the phases in words, such as `warmup 75 steps (linear), training 1,125 steps (constant)`."""
        parts = ((p, count_of(p.num_steps, "step") if p.num_steps else "to the end") for p in self.phases)
        return ", ".join(f"{phase.name} {length} ({phase.kind})" for phase, length in parts)

    @property
    def num_steps(self) -> int | None:
        """Returns the steps of all phases together; None if the training phase has no end."""
        return self.phases[-1].end if self.phases else 0

    def factor(self, step: int) -> float:
        """Returns the factor of the base rate at this step (0 is the first)."""
        if step < 0:
            raise ValueError(f"step={step}: the first step is 0.")
        if not self.phases:
            return 1.0
        going = (phase for phase in self.phases if phase.end is None or step < phase.end)
        return next(going, self.phases[-1]).factor(step)


def _chain(*phases: tuple[PhaseName, str, int | None, float]) -> list[Phase]:
    """Returns the phases that have steps, each starting at the step and the factor where the one before ended."""
    chain: list[Phase] = []
    start, level = 0, 1.0
    for name, kind_name, num_steps, decay in phases:
        kind = check_kind(kind_name, f"{name}_kind")
        if num_steps == 0:
            continue
        decay = check_decay(kind, decay, f"{name}_decay")
        if kind == "constant" and chain and decay != 1.0:
            raise ValueError(
                f"{name}_decay={decay:g} would make the rate jump where the constant {name} phase begins; "
                f"set {name}_decay=1.0, or another {name}_kind."
            )
        if num_steps is None and kind not in ("constant", "exponential"):
            raise ValueError(
                f"{name}_kind='{kind}' needs a length: set {name}_steps, or the trainer's max_steps."
            )
        phase = Phase(name, kind, start, num_steps, decay, level)
        chain.append(phase)
        if num_steps is not None:
            start += num_steps
            level = phase.factor(start)
    return chain
