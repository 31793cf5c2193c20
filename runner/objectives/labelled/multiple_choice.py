"""Multiple choice: the choice that goes with a text, by a softmax over the scores of its choices (arXiv 1808.05326)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from tiryns.conf.objective.labelled import MultipleChoice
from tiryns.runner.data.micro_batch import FlatSamples, MicroBatch
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.objectives.labelled import finetuning
from tiryns.runner.objectives.options import takes_options
from tiryns.runner.objectives.rows.layout import IGNORED, Places, Shape, positions
from tiryns.runner.objectives.rows.padded import column_of
from tiryns.runner.order.keyed import token_bits


class MultipleChoiceCollator(finetuning.ExampleLabels):
    """Chooses among the choices of each example: each is a document of its own, and an example's stay together.

    Each example weighs the same, however many choices it has. Samples in a list are the output of a tokenizer for an
    example's choices, each behind the text; all have equally many choices, as transformers' models expect.

    Example:
        >>> collator = MultipleChoiceCollator(0, 4, 50)
        >>> batch = collator([{"input_ids": [[2, 11, 3, 7], [2, 11, 3]], "label": 1}])
        >>> batch["input_ids"].tolist(), batch["labels"].tolist()
        ([[[2, 11, 3, 7], [2, 11, 3, 0]]], [1])
    """

    packs = True
    auto = "AutoModelForMultipleChoice"
    columns = ("token_type_ids",)

    @takes_options(MultipleChoice, label_column="label")
    def __init__(self, **shared: Any) -> None:
        super().__init__(**shared)
        finetuning.check_labelled(self, "multiple_choice")

    def rows_of(self, samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """As for all objectives; fields of the tokens are [B, C, T] with C choices of each sample."""
        if not len(samples):
            return super().rows_of(samples)
        counts = [len(choices) for choices in column_of(samples, "input_ids")]
        if len(set(counts)) > 1:
            raise ValueError(
                f"samples have {min(counts)} to {max(counts)} choices: a list of samples has equally many of each"
            )
        label = str(self.label_column)
        taken = [
            name
            for name in ("input_ids", "attention_mask", *self.columns, *self.extra_columns)
            if name in samples[0]
        ]
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

    def micro_batch(self, tokenized: FlatSamples) -> MicroBatch:
        """The `MicroBatch` of the choices of all samples, each a document with a key of its own."""
        choices: FlatSamples = {
            **tokenized,
            "lengths": tokenized["choice_lengths"],
            "keys": token_bits(tokenized["keys"], tokenized["num_choices"]),
        }
        return super().micro_batch(choices)

    def weight(self, labelled: FlatSamples) -> float:
        """The number of examples that have a label."""
        return float(np.count_nonzero(labelled["example_labels"] != IGNORED))

    def extra_fields(self, labelled: FlatSamples, places: Places, shape: Shape) -> MicroBatch:
        """`example_labels`, `samples` and `num_choices` [E], `choice_places` [D], and `token_type_ids` [D, T]."""
        counts = labelled["num_choices"]
        most = int(counts.max())
        rows = np.repeat(np.arange(len(counts)) * most, counts)
        return {
            **super().extra_fields(labelled, places, shape),
            "num_choices": torch.from_numpy(counts),
            "choice_places": torch.from_numpy(rows + positions(counts)),
            "most_choices": most,
        }

    def model_arguments(self) -> dict[str, Any]:
        """The head, of transformers' own for multiple choice where the architecture has one."""
        from tiryns.runner.models.head import Head
        from tiryns.runner.models.multiple_choice import AutoModelForMultipleChoice

        return {"head": Head(AutoModelForMultipleChoice, {"num_labels": 1})}

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """The model with its head and loss."""
        from tiryns.runner.models.multiple_choice import MultipleChoiceModel

        return MultipleChoiceModel(pretrained)
