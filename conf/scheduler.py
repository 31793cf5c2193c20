"""Group `scheduler`: the learning rate over the run (maths in runner/optim/schedule/phases.py)."""

from dataclasses import dataclass
from typing import Any

from tiryns.conf.registry import register
from tiryns.conf.values import AT_LEAST_0, KINDS, POSITIVE, Bounds, setting


@dataclass
class Wsd:
    """Warm-up, constant, cool-down along 1 - sqrt (arXiv 2405.18392); constant-phase checkpoints can be branched."""

    _target_: str = "runner.optim.get_scheduler"
    warmup_kind: str = setting("linear", allowed=KINDS)
    """Shape of the warm-up: constant, linear, cosine, exponential or inverse_sqrt."""
    warmup_steps: Any = setting(0.05, allowed=AT_LEAST_0)
    """Length of the warm-up: steps (int), or a fraction of max_steps (float between 0 and 1)."""
    warmup_decay: float = 0.0
    """Factor on the base rate at the start of the warm-up; for exponential, the factor per step."""
    training_kind: str = setting("constant", allowed=KINDS)
    """Shape of the middle phase, between warm-up and cool-down."""
    training_steps: Any = setting(-1, allowed=Bounds(-1))
    """Length of the middle phase: steps, a fraction of max_steps, or -1 for all remaining steps."""
    training_decay: float = 1.0
    """Ratio of the last rate of the middle phase to its first; for exponential the factor per step."""
    cooldown_kind: str = setting("inverse_sqrt", allowed=KINDS)
    """Shape of the cool-down."""
    cooldown_steps: Any = setting(0.2, allowed=AT_LEAST_0)
    """Length of the cool-down: steps, or a fraction of max_steps."""
    cooldown_decay: float = 0.0
    """Ratio of the last rate of the cool-down to its first; for exponential the factor per step."""
    warmup_tokens: Any = setting(None, allowed=POSITIVE)
    """Length of the warm-up in tokens instead of `warmup_steps`: as many steps as fit into this number of tokens,
    padding not counted. The tokens are counted once, when the run begins."""
    cooldown_tokens: Any = setting(None, allowed=POSITIVE)
    """Length of the cool-down in tokens instead of `cooldown_steps`: as many last steps as fit."""


@dataclass
class Cosine(Wsd):
    """Warm-up, then half a cosine down to a tenth of the rate (arXiv 2203.15556, appendix B)."""

    training_kind: str = "cosine"
    training_decay: float = 0.1
    cooldown_steps: Any = 0


@dataclass
class Linear(Wsd):
    """Warm-up, then a straight line to zero (BERT, arXiv 1810.04805)."""

    training_kind: str = "linear"
    training_decay: float = 0.0
    cooldown_steps: Any = 0


@dataclass
class Constant(Wsd):
    """The base rate from the first step to the last."""

    warmup_steps: Any = 0
    cooldown_steps: Any = 0
    """Length of the cool-down: steps, or a fraction of max_steps; set it to end a branched run with a cool-down."""


register("scheduler", wsd=Wsd, cosine=Cosine, linear=Linear, constant=Constant)
