"""A phase of a run: what it has otherwise than the run."""

from dataclasses import dataclass, field
from typing import Any

LENGTHS = ("steps", "tokens", "share")
"""Settings of a phase that say how long it is."""

CHANGED: dict[str, tuple[str, ...] | None] = {
    "data": ("max_length", "mixture", "mixture_by", "mixture_tau"),
    "sampler": ("global_batch_size", "warmup_from", "warmup_steps", "warmup_tokens", "warmup_by"),
    "objective": None,
    "model": ("rope_theta", "local_rope_theta"),
    "optimizer": ("lr", "weight_decay"),
    "scheduler": None,
}
"""Groups in which a phase may have settings of its own, and which ones; None for all of the group."""


@dataclass
class Phase:
    """A part of a run, which is as the run's own settings say where it has none of its own."""

    name: str
    steps: int | None = None
    """Its length in steps, or in `tokens`, or as a `share`."""
    tokens: float | None = None
    """As many steps as train on at most so many tokens, padding not counted."""
    share: float | None = None
    """A part of the run's steps; the shares of a run have the sum 1."""
    data: dict[str, Any] = field(default_factory=dict)
    """`max_length`; of a mixture also `mixture`, the weights of the sources it takes, and `mixture_tau`."""
    sampler: dict[str, Any] = field(default_factory=dict)
    """`global_batch_size`, and its warm-up over the phase."""
    objective: dict[str, Any] = field(default_factory=dict)
    """Settings of the objective in training, such as `mlm_probability`; validation is as the run's own settings say."""
    model: dict[str, Any] = field(default_factory=dict)
    """`rope_theta`, and `local_rope_theta` for layers of local attention."""
    optimizer: dict[str, Any] = field(default_factory=dict)
    """`lr` and `weight_decay`: those of each group of parameters change in proportion."""
    scheduler: dict[str, Any] = field(default_factory=dict)
    """The rate over the steps of this phase; with one such phase or one with an `lr` every phase has a schedule of its
    own, that of the run over its own steps."""

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """Its own settings by group."""
        return {group: found for group in CHANGED if (found := getattr(self, group))}
