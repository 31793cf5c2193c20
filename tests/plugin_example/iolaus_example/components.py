"""What the options build: a collator and a data source."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from torch import nn
from transformers import PreTrainedModel

from runner.models.sparse_head import SparseMaskedLM
from runner.objectives import Collator


class EveryNthCollator(Collator):
    """Every n-th ordinary token of a sample becomes a mask, and a target."""

    packs = True

    def __init__(self, nth: int, **collator: Any) -> None:
        super().__init__(**collator)
        if nth < 1:
            raise ValueError(f"objective.nth must be at least 1, not {nth}")
        self.nth = nth

    def compute_labels(self, tokenized: dict[str, Any]) -> dict[str, Any]:
        """Masked `input_ids` and `labels` of the flat tokens."""
        ids, lengths = tokenized["input_ids"], tokenized["lengths"]
        ordinary = ~self.is_special[ids]
        before = np.cumsum(ordinary) - ordinary
        first = np.cumsum(lengths) - lengths
        place = before - np.repeat(before[first], lengths)
        chosen = ordinary & (place % self.nth == self.nth - 1)
        return {"input_ids": np.where(chosen, self.mask_token_id, ids), "labels": np.where(chosen, ids, -100)}

    def task_model(self, pretrained: PreTrainedModel) -> nn.Module:
        """The model with its head on the targets only."""
        return SparseMaskedLM(pretrained)


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
