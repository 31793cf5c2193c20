"""Group `objective`: targets and losses."""

from tiryns.conf.objective import (
    causal,
    contrastive,
    distillation,
    labelled,
    late_interaction,
    pretraining,
    sparse,
)

__all__ = ["causal", "contrastive", "distillation", "labelled", "late_interaction", "pretraining", "sparse"]
