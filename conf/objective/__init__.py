"""Group `objective`: targets and losses."""

from tiryns.conf.objective import contrastive, distillation, labelled, pretraining

__all__ = ["contrastive", "distillation", "labelled", "pretraining"]
