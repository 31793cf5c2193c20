"""Classification of texts: one label, several labels at once, or a number; each example weighs the same."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from iolaus.runner.data.micro_batch import FlatSamples, MicroBatch
from iolaus.runner.models.task_model import TaskModel
from iolaus.runner.objectives import finetuning
from iolaus.runner.objectives.base import FlatCollator
from iolaus.runner.objectives.layout import IGNORED, Places, Shape
from iolaus.runner.objectives.rows import column_of


class SequenceClassificationCollator(FlatCollator):
    """Classifies texts: `labels` are the names of the labels, `problem_type` is transformers' name for their kind.

    The loss is cross-entropy, binary cross-entropy averaged over the labels, or the squared error. `new_head` replaces
    the head of a model that was trained for other labels. Labels of a list of samples are integers, numbers, or one truth
    value per label where several may hold at once.

    Example:
        >>> collator = SequenceClassificationCollator(0, 4, 50)
        >>> batch = collator([{"input_ids": [2, 11, 3], "label": 1}, {"input_ids": [2, 3], "label": 0}])
        >>> batch["labels"].tolist(), batch["attention_mask"].tolist()
        ([1, 0], [[1, 1, 1], [1, 1, 0]])
    """

    packs = True
    auto = "AutoModelForSequenceClassification"

    def __init__(
        self,
        pad_token_id: int,
        mask_token_id: int,
        vocab_size: int,
        text_column: str = "text",
        label_column: str = "label",
        max_sequence_length: int = 1024,
        new_head: bool = False,
        labels: Sequence[str] = (),
        problem_type: str = "",
        **shared: Any,
    ) -> None:
        super().__init__(
            pad_token_id, mask_token_id, vocab_size, text_column, label_column, max_sequence_length, **shared
        )
        finetuning.check_labelled(self, "classification")
        self.new_head, self.labels, self.problem_type = new_head, list(labels), problem_type

    def labels_of_column(self, samples: Sequence[Mapping[str, Any]], width: int) -> dict[str, Any]:
        """`labels`: int64 [B], numbers float32 [B], or float32 [B, C] with C labels that may hold at once."""
        values = column_of(samples, str(self.label_column))
        if np.ndim(values[0]):
            return {"labels": torch.tensor(np.array(values, dtype=np.float32))}
        return super().labels_of_column(samples, width)

    def flat_samples(self, tokenized: dict[str, Any], real: NDArray[np.bool_]) -> FlatSamples:
        """The real tokens, and the labels of the samples."""
        labels = torch.as_tensor(finetuning.given_labels(self, tokenized)).numpy()
        return {**super().flat_samples(tokenized, real), "example_labels": labels}

    def flat_labels(self, tokenized: FlatSamples) -> FlatSamples:
        """No token is a target; the labels of the examples are `example_labels`."""
        labels = tokenized["example_labels"]
        if tokenized.get("filler"):
            labels = np.full_like(labels, IGNORED if labels.dtype.kind == "i" else np.nan)
        ids = tokenized["input_ids"]
        return {"input_ids": ids, "labels": np.full_like(ids, IGNORED), "example_labels": labels}

    def weight(self, labelled: FlatSamples) -> float:
        """The number of examples that have a label."""
        labels = labelled["example_labels"]
        if labels.dtype.kind == "i":
            return float(np.count_nonzero(labels != IGNORED))
        return float(len(labels) - np.isnan(labels.reshape(len(labels), -1)).any(1).sum())

    def extra_fields(self, labelled: FlatSamples, places: Places, shape: Shape) -> MicroBatch:
        """`example_labels` [D] or [D, C], `samples` [D], and `token_type_ids` [D, T] for pairs."""
        return {
            "example_labels": torch.from_numpy(labelled["example_labels"]),
            "samples": finetuning.sample_numbers(labelled),
            **finetuning.token_types(labelled, places, shape),
        }

    def rows(self, labelled: FlatSamples, places: Places, shape: Shape) -> dict[str, Any]:
        """`input_ids` [B, T], and `labels` of the samples."""
        labels = torch.from_numpy(labelled["example_labels"])
        return super().rows(labelled, places, shape) | {"labels": labels}

    def head_config(self) -> dict[str, Any]:
        """The names of the labels, and the kind of problem."""
        return {**finetuning.label_config(self.labels or ["value"]), "problem_type": self.problem_type}

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """The model with its head and loss."""
        from iolaus.runner.models.finetuning import SequenceClassifier

        finetuning.check_length(pretrained, self.max_sequence_length)
        return SequenceClassifier(pretrained, self.problem_type)
