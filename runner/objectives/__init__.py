"""Objectives: collators that turn tokenised samples into a micro-batch with targets.

`base` says what a collator is and lays out the rows; one file per objective. Pretraining: `mlm`, `enhanced_mlm`,
`diffusion`; finetuning: one for each task.
"""

from iolaus.conf.registry import OPTIONS
from iolaus.conf.values import suggest
from iolaus.runner.config.targets import locate
from iolaus.runner.objectives.base import Collator
from iolaus.runner.objectives.classification import SequenceClassificationCollator
from iolaus.runner.objectives.diffusion import MaskedDiffusionCollator
from iolaus.runner.objectives.enhanced_mlm import EnhancedMaskedLanguageModelingCollator
from iolaus.runner.objectives.mlm import MaskedLanguageModelingCollator
from iolaus.runner.objectives.question_answering import QuestionAnsweringCollator
from iolaus.runner.objectives.token_classification import TokenClassificationCollator
from iolaus.runner.objectives.vision_language import VisionLanguageCollator

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


def get_collator_cls(objective: str) -> type[Collator]:
    """The collator class of an objective by its config name.

    Example:
        >>> get_collator_cls("mlm").__name__
        'MaskedLanguageModelingCollator'

    Raises:
        ValueError: an unknown name; the message lists the known ones.
    """
    options = OPTIONS["objective"]
    if objective not in options:
        raise ValueError(
            f"unknown objective {objective!r}; there are: {', '.join(options)}" + suggest(objective, options)
        )
    target = locate(options[objective]._target_, "objective")  # type: ignore[attr-defined]
    assert isinstance(target, type)
    return target
