"""Objectives: collators that turn tokenised samples into a micro-batch with targets."""

from .base import Collator, get_collator_cls
from .mlm import MaskedLanguageModelingCollator

__all__ = ["Collator", "MaskedLanguageModelingCollator", "get_collator_cls"]
