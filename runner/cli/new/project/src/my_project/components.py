"""What the options build: an objective, a metric and a data source."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from transformers import PreTrainedModel

from tiryns.runner.models.pretraining.sparse_head import SparseMaskedLM
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.objectives import Collator


class EveryNthCollator(Collator):
    """Every n-th ordinary token of a sample becomes a mask, and a target."""

    packs = True

    def __init__(self, nth: int, **collator: Any) -> None:
        super().__init__(**collator)
        self.nth = nth

    def compute_labels(self, tokenized: dict[str, Any]) -> dict[str, Any]:
        """Masked `input_ids` and `labels` of padded rows [B, T]."""
        ids = tokenized["input_ids"]
        ordinary = (tokenized["attention_mask"] == 1) & ~torch.from_numpy(self.is_special)[ids]
        is_target = ordinary & (ordinary.cumsum(1) % self.nth == 0)
        return {
            "input_ids": ids.masked_fill(is_target, self.mask_token_id),
            "labels": ids.masked_fill(~is_target, -100),
        }

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """Returns the model with its head on the targets only."""
        return SparseMaskedLM(pretrained)


class Surprise(Metric):
    """The mean of -log p of the true label."""

    total: Tensor
    count: Tensor

    def __init__(self, num_labels: int) -> None:
        super().__init__()
        for name in ("total", "count"):
            self.add_state(name, torch.zeros(()), dist_reduce_fx="sum")

    def update(self, probabilities: Tensor, labels: Tensor) -> None:
        """Adds examples: probabilities [D, C] and class numbers [D]."""
        self.total -= probabilities.gather(1, labels[:, None]).log().sum()
        self.count += len(labels)

    def compute(self) -> Tensor:
        """In nats."""
        return self.total / self.count


class Sheep:
    """A source of documents: `tokenized` says whether they are token ids already."""

    tokenized = False

    def __init__(self, count: int) -> None:
        self.count = count

    def documents(self) -> Iterator[str]:
        """One sheep after the other."""
        return (
            f"sheep number {n} jumps over the fence after sheep {n - 1}" for n in range(1, self.count + 1)
        )

    def fingerprint(self) -> dict[str, Any]:
        """What tells these documents from others."""
        return {"source": "sheep", "count": self.count}

    def describe(self) -> str:
        """One line for the summary of a run."""
        return f"{self.count} sheep"
