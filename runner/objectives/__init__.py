"""Objectives: collators that turn tokenised samples into a batch with targets.

- `base`: `Collator` and `FlatCollator`, the base classes, and `get_collator_cls`; `options`: settings of a collator.
- `mlm` (masked, enhanced, replaced tokens) and `diffusion`: pretraining; `masking` chooses the tokens, words or spans to
  mask, and the tokens that replace them.
- `causal`: pretraining on next tokens, alone or mixed with masked tokens.
- `contrastive`: pairs of texts; `labelled`: finetuning; `vision_language`: conversations about images.
- `rows`: places of tokens in padded and packed rows, the hashes of samples, and lists of samples as padded rows.

Read `base`, then `mlm`.
"""

from typing import TYPE_CHECKING

from tiryns.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from tiryns.runner.objectives.base import Collator, get_collator_cls
    from tiryns.runner.objectives.causal import CausalLanguageModelingCollator, HybridLanguageModelingCollator
    from tiryns.runner.objectives.contrastive import ContrastiveCollator
    from tiryns.runner.objectives.diffusion import MaskedDiffusionCollator
    from tiryns.runner.objectives.labelled.classification import SequenceClassificationCollator
    from tiryns.runner.objectives.labelled.question_answering import QuestionAnsweringCollator
    from tiryns.runner.objectives.labelled.token_classification import (
        JointTaggingCollator,
        TokenClassificationCollator,
    )
    from tiryns.runner.objectives.mlm import (
        EnhancedMaskedLanguageModelingCollator,
        MaskedLanguageModelingCollator,
        ReplacedTokenDetectionCollator,
    )
    from tiryns.runner.objectives.vision_language import VisionLanguageCollator

    MultipleChoiceCollator: type[Collator]
else:
    # in the folder of its task, which this package may not import
    elsewhere = {"MultipleChoiceCollator": "tiryns.runner.tasks.multiple_choice.model"}
    __getattr__, __dir__ = lazy_names(__name__, elsewhere)

__all__ = [
    "CausalLanguageModelingCollator", "Collator", "ContrastiveCollator",
    "EnhancedMaskedLanguageModelingCollator", "HybridLanguageModelingCollator", "JointTaggingCollator",
    "MaskedDiffusionCollator", "MaskedLanguageModelingCollator", "MultipleChoiceCollator",
    "QuestionAnsweringCollator", "ReplacedTokenDetectionCollator", "SequenceClassificationCollator",
    "TokenClassificationCollator", "VisionLanguageCollator", "get_collator_cls",
]  # fmt: skip
