"""Group `scheduler`: the learning rate over the run (maths in runner/optim/schedule/phases.py)."""

from dataclasses import dataclass
from typing import Any

from iolaus.conf.registry import register
from iolaus.conf.values import AT_LEAST_0, KINDS, Bounds, setting


@dataclass
class Wsd:
    """Warm-up, stable, cool-down along 1 - sqrt (arXiv 2405.18392): any stable checkpoint can be branched."""

    _target_: str = "runner.optim.get_scheduler"
    warmup_kind: str = setting("linear", allowed=KINDS)
    """How the rate rises: constant, linear, cosine, exponential or inverse_sqrt."""
    warmup_steps: Any = setting(0.05, allowed=AT_LEAST_0)
    """Length of the warm-up: steps (int), or a fraction of max_steps (float between 0 and 1)."""
    warmup_decay: float = 0.0
    """Where the warm-up starts, as a factor of the base rate; for exponential the factor per step."""
    training_kind: str = setting("constant", allowed=KINDS)
    """How the rate goes between warm-up and cool-down."""
    training_steps: Any = setting(-1, allowed=Bounds(-1))
    """Length of the middle phase: steps, a fraction of max_steps, or -1 for all that is left."""
    training_decay: float = 1.0
    """Where the middle phase ends, as a factor of where it starts; for exponential the factor per step."""
    cooldown_kind: str = setting("inverse_sqrt", allowed=KINDS)
    """How the rate falls at the end."""
    cooldown_steps: Any = setting(0.2, allowed=AT_LEAST_0)
    """Length of the cool-down: steps, or a fraction of max_steps."""
    cooldown_decay: float = 0.0
    """Where the cool-down ends, as a factor of where it starts; for exponential the factor per step."""


@dataclass
class Cosine(Wsd):
    """Warm-up, then half a cosine down to a tenth of the rate (arXiv 2203.15556, appendix B)."""

    training_kind: str = "cosine"
    """Half a cosine."""
    training_decay: float = 0.1
    """Where the cosine ends, as a factor of the base rate."""
    cooldown_steps: Any = 0
    """None: the cosine is the cool-down."""


@dataclass
class Linear(Wsd):
    """Warm-up, then a straight line to zero (BERT, arXiv 1810.04805)."""

    training_kind: str = "linear"
    """A straight line."""
    training_decay: float = 0.0
    """Where the line ends, as a factor of the base rate."""
    cooldown_steps: Any = 0
    """None: the line is the cool-down."""


@dataclass
class Constant(Wsd):
    """The base rate from the first step to the last."""

    warmup_steps: Any = 0
    """None."""
    cooldown_steps: Any = 0
    """None; set it when branching a run, to end it with a cool-down."""


register("scheduler", wsd=Wsd, cosine=Cosine, linear=Linear, constant=Constant)
