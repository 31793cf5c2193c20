"""Group `objective`: targets and losses."""

from tiryns.conf.objective import causal, contrastive, distillation, labelled, pretraining, sparse

__all__ = ["causal", "contrastive", "distillation", "labelled", "pretraining", "sparse"]
