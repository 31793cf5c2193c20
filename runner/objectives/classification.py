"""Classification of texts: one label, several labels at once, or a number; each example weighs the same."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import PreTrainedModel

from .base import IGNORED, Collator, Flat
from .finetuning import check_labels, check_length, sample_numbers, task_head, token_types


class SequenceClassificationCollator(Collator):
    """Hands on the label of each example: `labels` are their names, `problem_type` is transformers' word for their kind.

    The loss is cross-entropy, binary cross-entropy averaged over the labels, or the squared error. `new_head` starts the
    head of a model anew that was trained for other labels.
    """

    packs = True

    def __init__(
        self, new_head: bool, labels: Sequence[str] = (), problem_type: str = "", **collator: Any
    ) -> None:
        super().__init__(**collator)
        check_labels(labels, problem_type, "classification")
        self.new_head, self.labels, self.problem_type = new_head, list(labels), problem_type

    def compute_labels(self, tokenized: Flat) -> Flat:
        """No token is a target; the example's label goes its own way in `example_labels`."""
        labels = tokenized["example_labels"]
        if tokenized.get("filler"):
            labels = np.full_like(labels, IGNORED if labels.dtype.kind == "i" else np.nan)
        ids = tokenized["input_ids"]
        return {"input_ids": ids, "labels": np.full_like(ids, IGNORED), "example_labels": labels}

    def weight(self, labelled: Flat) -> float:
        """The number of examples that have a label."""
        labels = labelled["example_labels"]
        if labels.dtype.kind == "i":
            return float(np.count_nonzero(labels != IGNORED))
        return float(len(labels) - np.isnan(labels.reshape(len(labels), -1)).any(1).sum())

    def further(self, labelled: Flat, places: NDArray[np.int64], shape: tuple[int, int]) -> dict[str, Any]:
        """`example_labels` [D] or [D, C], `samples` [D], and `token_type_ids` [D, T] for pairs."""
        return {
            "example_labels": torch.from_numpy(labelled["example_labels"]),
            "samples": sample_numbers(labelled),
            **token_types(labelled, places, shape),
        }

    def model_arguments(self) -> dict[str, Any]:
        """The classification head, with the names of the labels."""
        from transformers import AutoModelForSequenceClassification

        names = self.labels or ["value"]
        return task_head(
            AutoModelForSequenceClassification, names, self.new_head, problem_type=self.problem_type
        )

    def task_model(self, pretrained: PreTrainedModel) -> nn.Module:
        """The model with its head and loss."""
        from runner.models.finetuning import SequenceClassifier

        check_length(pretrained, self.max_sequence_length)
        return SequenceClassifier(pretrained, self.problem_type)
