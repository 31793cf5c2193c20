"""The LightningModules: one training step that all objectives share."""

from .pretraining import PretrainingModule

__all__ = ["PretrainingModule"]
