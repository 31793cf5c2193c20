"""Objectives of ranking: each candidate of a list is a document of its own, and those of a list stay together.

Letters in shapes: E lists, X candidates of all lists, C those of the longest.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from tiryns.conf.objective.labelled import MultipleChoice, Ranking
from tiryns.runner.data.micro_batch import FlatSamples, MicroBatch
from tiryns.runner.models.head import Head
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.objectives.labelled import finetuning
from tiryns.runner.objectives.options import takes_options
from tiryns.runner.objectives.rows import Places, Shape, column_of, positions
from tiryns.runner.order.keyed import token_bits
from tiryns.runner.tasks.ranking.losses import list_weights
from tiryns.runner.tasks.ranking.model import AutoModelForMultipleChoice, MultipleChoiceModel, RankingModel


class ListCollator(finetuning.ExampleLabels):
    """Scores the candidates of each list."""

    packs = True
    columns = ("token_type_ids",)
    loss = "listwise"

    def micro_batch(self, tokenized: FlatSamples) -> MicroBatch:
        """The `MicroBatch` of the candidates of all samples, each a document with a key of its own."""
        candidates: FlatSamples = {
            **tokenized,
            "lengths": tokenized["choice_lengths"],
            "keys": token_bits(tokenized["keys"], tokenized["num_choices"]),
        }
        return super().micro_batch(candidates)

    def weight(self, labelled: FlatSamples) -> float:
        """The number of lists, candidates or pairs that the loss is of."""
        return float(list_weights(self.loss, self.lists(labelled)[0]).sum())

    def extra_fields(self, labelled: FlatSamples, places: Places, shape: Shape) -> MicroBatch:
        """`samples` and `num_choices` [E], `grades` [E, C], `choice_places` [X], and `token_type_ids` [X, T]."""
        grades, cells = self.lists(labelled)
        return {
            **super().extra_fields(labelled, places, shape),
            "num_choices": torch.from_numpy(labelled["num_choices"]),
            "choice_places": torch.from_numpy(cells),
            "grades": grades,
        }

    def lists(self, labelled: FlatSamples) -> tuple[Tensor, NDArray[np.int64]]:
        """The grades [E, C], NaN beyond a list and where they are not known, and the cell of each candidate [X]."""
        counts = labelled["num_choices"]
        most = int(counts.max())
        cells = np.repeat(np.arange(len(counts)) * most, counts) + positions(counts)
        grades = np.full(len(counts) * most, np.nan, dtype=np.float32)
        grades[cells] = self.grades(labelled)
        return torch.from_numpy(grades.reshape(-1, most)), cells

    @abstractmethod
    def grades(self, labelled: FlatSamples) -> NDArray[np.float32]:
        """The grade of each candidate [X], NaN for unknown."""


class RankingCollator(ListCollator):
    """Ranks the candidates of a query by their grades; see `tiryns.runner.tasks.ranking.losses` for each `loss`.

    Samples in a list are the output of a tokenizer for a query and one candidate each, with its grade.

    Example:
        >>> collator = RankingCollator(0, 4, 50)
        >>> batch = collator([{"input_ids": [2, 11, 3, 7], "label": 1.0}, {"input_ids": [2, 11, 3], "label": 0.0}])
        >>> batch["input_ids"].tolist(), batch["labels"].tolist()
        ([[2, 11, 3, 7], [2, 11, 3, 0]], [1.0, 0.0])
    """

    auto = "AutoModelForSequenceClassification"
    options: Ranking

    @takes_options(Ranking, label_column="label")
    def __init__(self, **shared: Any) -> None:
        super().__init__(**shared)
        finetuning.check_labelled(self, "ranking")
        self.loss = self.options.loss

    def grades(self, labelled: FlatSamples) -> NDArray[np.float32]:
        """Those of the samples."""
        return labelled["example_labels"]

    def head_config(self) -> dict[str, Any]:
        """One score, which sentence-transformers takes as it is, without a sigmoid."""
        return {
            "num_labels": 1,
            "sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"},
        }

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """The model with its head and loss."""
        return RankingModel(pretrained, self.loss)


class MultipleChoiceCollator(ListCollator):
    """Chooses among the choices of each example: each is a document of its own, and an example's stay together.

    Each example weighs the same, however many choices it has. Samples in a list are the output of a tokenizer for an
    example's choices, each behind the text; all have equally many choices, as transformers' models expect.

    Example:
        >>> collator = MultipleChoiceCollator(0, 4, 50)
        >>> batch = collator([{"input_ids": [[2, 11, 3, 7], [2, 11, 3]], "label": 1}])
        >>> batch["input_ids"].tolist(), batch["labels"].tolist()
        ([[[2, 11, 3, 7], [2, 11, 3, 0]]], [1])
    """

    auto = "AutoModelForMultipleChoice"

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

    def grades(self, labelled: FlatSamples) -> NDArray[np.float32]:
        """1 for the choice that is right, else 0."""
        counts = labelled["num_choices"]
        right = np.repeat(labelled["example_labels"], counts)
        return np.where(right < 0, np.nan, positions(counts) == right).astype(np.float32)

    def model_arguments(self) -> dict[str, Any]:
        """The head, of transformers' own for multiple choice where the architecture has one."""
        return {"head": Head(AutoModelForMultipleChoice, {"num_labels": 1})}

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """The model with its head and loss."""
        return MultipleChoiceModel(pretrained, self.loss)
