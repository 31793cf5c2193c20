"""Objectives: collators that turn tokenised samples into a batch with targets.

- `base`: `Collator` and `FlatCollator`, the base classes, and `get_collator_cls`.
- `mlm`, `enhanced_mlm`, `diffusion`: pretraining; `masking` chooses targets by token, word or span.
- `classification`, `token_classification`, `question_answering`: finetuning; `finetuning` has their shared functions.
- `vision_language`: conversations about images.
- `layout`: places of tokens in padded and packed rows, and the hashes of samples.
- `rows`: lists of samples as padded rows; `row_batch`: flat samples as the batch of a `DataLoader`.

Read `base`, then `mlm`.
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
