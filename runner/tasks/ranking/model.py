"""The task models of ranking, and the head of multiple choice for any architecture.

Letters in shapes: E lists, D candidates of all lists, C those of the longest, T tokens.
"""

from typing import Any

import transformers
from torch import Tensor
from transformers import AutoConfig, AutoModelForSequenceClassification, PretrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_MULTIPLE_CHOICE_MAPPING

from tiryns.runner.config.loading import from_pretrained
from tiryns.runner.data.labelled.labels import SINGLE
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.finetuning import SequenceClassifier
from tiryns.runner.tasks.ranking.losses import list_losses, list_weights
from tiryns.runner.widening import widened


class AutoModelForMultipleChoice:
    """transformers' class of that name; for an architecture without one, a classifier of texts with one label.

    Example:
        >>> from transformers import BertConfig, EuroBertConfig
        >>> AutoModelForMultipleChoice.of(BertConfig()).__name__, AutoModelForMultipleChoice.of(EuroBertConfig()).__name__
        ('AutoModelForMultipleChoice', 'AutoModelForSequenceClassification')
    """

    @classmethod
    def of(cls, config: PretrainedConfig) -> Any:
        """The class of transformers that loads and builds models of a config."""
        own = cls.__name__ in (getattr(config, "auto_map", None) or {})
        known = own or type(config) in MODEL_FOR_MULTIPLE_CHOICE_MAPPING
        return transformers.AutoModelForMultipleChoice if known else AutoModelForSequenceClassification

    @classmethod
    def from_config(cls, config: PretrainedConfig, **options: Any) -> PreTrainedModel:
        """The model with random weights."""
        model: PreTrainedModel = cls.of(config).from_config(config, **options)
        return model

    @classmethod
    def from_pretrained(cls, path: str, **options: Any) -> Any:
        """The model with its weights, as transformers loads it."""
        return cls.of(from_pretrained(AutoConfig, path)).from_pretrained(path, **options)


class RankingModel(SequenceClassifier):
    """Scores each candidate from the pooled state of its tokens; the loss is over those of a list."""

    def __init__(self, pretrained: PreTrainedModel, loss: str) -> None:
        super().__init__(pretrained, SINGLE)
        self.loss = loss

    def head_tokens(self, micro_batch: MicroBatch) -> int:
        """One of each candidate."""
        return len(micro_batch["choice_places"])

    def forward(self, micro_batch: MicroBatch) -> dict[str, Any]:
        """The sum of the `loss` over lists with grades, and `logits` [E, C], -inf beyond a list."""
        grades = micro_batch["grades"]
        scores = widened(self.outputs(micro_batch).logits)[:, 0]
        none = scores.new_full((grades.numel(),), -float("inf"))
        logits = none.index_copy(0, micro_batch["choice_places"], scores).view_as(grades)
        losses = list_losses(self.loss, logits, grades)
        result: dict[str, Any] = {"loss": losses.sum(), "logits": logits.detach()}
        if self.by_row:
            weights = list_weights(self.loss, grades)
            result["row_sums"] = {"loss": losses.double(), "weight": weights.double()}
        return result


class MultipleChoiceModel(RankingModel):
    """Scores each choice, also by transformers' models that read all choices of an example at once."""

    def __init__(self, pretrained: PreTrainedModel, loss: str) -> None:
        super().__init__(pretrained, loss)
        self.is_nested = type(pretrained).__name__.endswith("ForMultipleChoice")
        """Whether the model reads [E, C, T]; here each choice is an example of its own, [D, 1, T]."""

    def arguments(self, micro_batch: MicroBatch) -> dict[str, Any]:
        """As for all models, nested where they are padded."""
        found = super().arguments(micro_batch)
        if not self.is_nested or "cu_seqlens" in micro_batch:
            return found
        return {name: value[:, None] for name, value in found.items()}

    def head_outputs(self, hidden: Tensor, mask: Tensor) -> Any:
        """As for all classifiers; nested models count choices by what they embed."""
        if not self.is_nested:
            return super().head_outputs(hidden, mask)
        return self.pretrained(inputs_embeds=hidden[:, None], attention_mask=mask[:, None])
