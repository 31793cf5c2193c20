"""Group `objective`: targets and losses."""

from tiryns.conf.objective import contrastive, labelled, pretraining

__all__ = ["contrastive", "labelled", "pretraining"]
