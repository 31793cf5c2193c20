"""The objective and the task model of multiple choice, and its head for any architecture.

Letters in shapes: B or E examples, X and D choices of all examples, C choices of the longest, T tokens.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import transformers
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoConfig, AutoModelForSequenceClassification, PretrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_MULTIPLE_CHOICE_MAPPING

from tiryns.conf.objective.labelled import MultipleChoice
from tiryns.runner.config.loading import from_pretrained
from tiryns.runner.data.micro_batch import FlatSamples, MicroBatch
from tiryns.runner.models.head import Head
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.objectives.labelled import finetuning
from tiryns.runner.objectives.options import takes_options
from tiryns.runner.objectives.rows import column_of, positions
from tiryns.runner.tasks.ranking.objective import RankingCollator, RankingModel


class AutoModelForMultipleChoice:
    """The transformers class of this name; for an architecture without this class, a classifier of texts with one label.

    Example:
        >>> from transformers import BertConfig, EuroBertConfig
        >>> AutoModelForMultipleChoice.of(BertConfig()).__name__, AutoModelForMultipleChoice.of(EuroBertConfig()).__name__
        ('AutoModelForMultipleChoice', 'AutoModelForSequenceClassification')
    """

    @classmethod
    def of(cls, config: PretrainedConfig) -> Any:
        """Returns the class of transformers that loads and builds models of a config."""
        in_auto_map = cls.__name__ in (getattr(config, "auto_map", None) or {})
        has_class = in_auto_map or type(config) in MODEL_FOR_MULTIPLE_CHOICE_MAPPING
        return transformers.AutoModelForMultipleChoice if has_class else AutoModelForSequenceClassification

    @classmethod
    def from_config(cls, config: PretrainedConfig, **options: object) -> PreTrainedModel:
        """Returns the model with random weights."""
        model: PreTrainedModel = cls.of(config).from_config(config, **options)
        return model

    @classmethod
    def from_pretrained(cls, path: str, **options: object) -> Any:
        """Returns the model with its weights, as transformers loads it."""
        return cls.of(from_pretrained(AutoConfig, path)).from_pretrained(path, **options)


class MultipleChoiceModel(RankingModel):
    """Scores each choice, also by transformers' models that read all choices of an example at once."""

    def __init__(self, pretrained: PreTrainedModel, loss: str) -> None:
        super().__init__(pretrained, loss)
        self.is_nested = type(pretrained).__name__.endswith("ForMultipleChoice")
        """Whether the model reads [E, C, T]; here each choice is its own example, [D, 1, T]."""

    def arguments(self, micro_batch: MicroBatch) -> dict[str, Tensor]:
        """Returns the base class's arguments; padded rows become [D, 1, T] for a nested model: one choice per example."""
        arguments = super().arguments(micro_batch)
        if not self.is_nested or "cu_seqlens" in micro_batch:
            return arguments
        return {name: value[:, None] for name, value in arguments.items()}

    def head_outputs(self, hidden: Tensor, mask: Tensor) -> Any:
        """Returns the base class's output; nested models count their one choice in the shape of `inputs_embeds`."""
        if not self.is_nested:
            return super().head_outputs(hidden, mask)
        return self.pretrained(inputs_embeds=hidden[:, None], attention_mask=mask[:, None])


class MultipleChoiceCollator(RankingCollator):
    """Chooses among the choices of each example: each choice is its own document, and an example's choices stay together.

    Each example has the same weight for any number of choices. Samples in a list are the output of a tokenizer for an
    example's choices, each after the text; all have equally many choices, as transformers' models expect.

    Example:
        >>> collator = MultipleChoiceCollator(0, 4, 50)
        >>> batch = collator([{"input_ids": [[2, 11, 3, 7], [2, 11, 3]], "label": 1}])
        >>> batch["input_ids"].tolist(), batch["labels"].tolist()
        ([[[2, 11, 3, 7], [2, 11, 3, 0]]], [1])
    """

    auto = "AutoModelForMultipleChoice"
    predicts_with = ()
    loss = "listwise"

    @takes_options(MultipleChoice, label_column="label")
    def __init__(self, **shared: Any) -> None:
        finetuning.ExampleLabels.__init__(self, **shared)
        finetuning.check_labelled(self, "multiple_choice")

    def rows_of(self, samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Returns the batch of a list of samples; fields of tokens are [B, C, T] for C choices of each sample."""
        if not len(samples):
            return super().rows_of(samples)
        counts = [len(choices) for choices in column_of(samples, "input_ids")]
        if len(set(counts)) > 1:
            raise ValueError(
                f"samples have {min(counts)} to {max(counts)} choices: all samples must have equally many"
            )
        label = str(self.label_column)
        fields = ("input_ids", "attention_mask", *self.columns, *self.extra_columns)
        taken = [name for name in fields if name in samples[0]]
        every = [
            {**{name: sample[name][choice] for name in taken}, label: sample[label]}
            for sample, _ in zip(samples, column_of(samples, label), strict=True)
            for choice in range(counts[0])
        ]
        batch = super().rows_of(every)
        labels = batch.pop("labels")[:: counts[0]]
        return {
            **{name: value.unflatten(0, (-1, counts[0])) for name, value in batch.items()},
            "labels": labels,
        }

    def grades(self, labelled: FlatSamples) -> NDArray[np.number]:
        """Returns 1 for the right choice, else 0; NaN if unknown."""
        counts = labelled["num_choices"]
        right = np.repeat(labelled["example_labels"], counts)
        return np.where(right < 0, np.nan, positions(counts) == right)

    def model_arguments(self) -> dict[str, object]:
        """Returns the head: transformers' own for multiple choice if the architecture has one, else a classifier's."""
        return {"head": Head(AutoModelForMultipleChoice, {"num_labels": 1})}

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        return MultipleChoiceModel(pretrained, self.loss)
