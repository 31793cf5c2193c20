"""Objectives: collators that turn tokenised samples into a micro-batch with targets.

`base` says what a collator is and lays out the rows; one file per objective. Pretraining: `mlm`, `enhanced_mlm`,
`diffusion`; finetuning: one for each task.
"""

from typing import TYPE_CHECKING

from iolaus.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from iolaus.runner.objectives.base import Collator, get_collator_cls
    from iolaus.runner.objectives.classification import SequenceClassificationCollator
    from iolaus.runner.objectives.diffusion import MaskedDiffusionCollator
    from iolaus.runner.objectives.enhanced_mlm import EnhancedMaskedLanguageModelingCollator
    from iolaus.runner.objectives.mlm import MaskedLanguageModelingCollator
    from iolaus.runner.objectives.question_answering import QuestionAnsweringCollator
    from iolaus.runner.objectives.token_classification import TokenClassificationCollator
    from iolaus.runner.objectives.vision_language import VisionLanguageCollator
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "Collator",
    "EnhancedMaskedLanguageModelingCollator",
    "MaskedDiffusionCollator",
    "MaskedLanguageModelingCollator",
    "QuestionAnsweringCollator",
    "SequenceClassificationCollator",
    "TokenClassificationCollator",
    "VisionLanguageCollator",
    "get_collator_cls",
]
