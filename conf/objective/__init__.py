"""Group `objective`: targets and losses."""

from tiryns.conf.objective import (
    causal,
    contrastive,
    distillation,
    labelled,
    late_interaction,
    pretraining,
    ranking,
    sparse,
)

__all__ = [
    "causal",
    "contrastive",
    "distillation",
    "labelled",
    "late_interaction",
    "pretraining",
    "ranking",
    "sparse",
]
