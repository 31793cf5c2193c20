"""The LightningModules: one training step that all objectives share."""

from .finetuning import FinetuningModule
from .pretraining import PretrainingModule

__all__ = ["FinetuningModule", "PretrainingModule"]
