"""The LightningModules: one training step that all objectives share."""

from .finetuning import FinetuningModule
from .pretraining import PretrainingModule
from .vision_language import VisionLanguageModule

__all__ = ["FinetuningModule", "PretrainingModule", "VisionLanguageModule"]
