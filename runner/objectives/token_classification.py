"""Classification of words: the label of a word lies on its first piece, or on all of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import PreTrainedModel

from .base import IGNORED, Collator, Flat
from .finetuning import check_labels, check_length, sample_numbers, task_head


class TokenClassificationCollator(Collator):
    """Aligns the labels of words to their pieces; each target weighs the same.

    With `label_all_pieces` every piece of a word is a target, otherwise the first one. Predictions are read from first
    pieces either way. `new_head` starts the head of a model anew that was trained for other labels. With
    `constrained_decoding` the tags of a sentence are predicted together, where the training data keeps to IOB2.
    """

    packs = True

    def __init__(
        self,
        label_all_pieces: bool,
        new_head: bool,
        constrained_decoding: bool,
        labels: Sequence[str] = (),
        **collator: Any,
    ) -> None:
        super().__init__(**collator)
        check_labels(labels, "", "token_classification")
        self.label_all_pieces, self.new_head, self.labels = label_all_pieces, new_head, list(labels)
        self.constrained_decoding = constrained_decoding

    def compute_labels(self, tokenized: Flat) -> Flat:
        """The label of each piece [N], -100 for special tokens and, unless all pieces count, for later pieces."""
        labels = tokenized["token_labels"]
        if not self.label_all_pieces:
            labels = np.where(tokenized["first_pieces"], labels, IGNORED)
        return {"input_ids": tokenized["input_ids"], "labels": labels}

    def settings(self) -> dict[str, Any]:
        """How tags are chosen."""
        return {"constrained_decoding": self.constrained_decoding}

    def further(self, labelled: Flat, places: NDArray[np.int64], shape: tuple[int, int]) -> dict[str, Any]:
        """`samples` [D]; for each word's first piece its place `word_positions` [W], and its word `words` [W].

        `read_positions` [R] are the places that have a target or are a first piece, each once.
        """
        is_first = labelled["first_pieces"] & (not labelled.get("filler"))
        first = np.flatnonzero(is_first)
        return {
            "samples": sample_numbers(labelled),
            "read_positions": torch.from_numpy(places[is_first | (labelled["labels"] != IGNORED)]),
            "word_positions": torch.from_numpy(places[first]),
            "words": torch.from_numpy(labelled["words"][first].astype(np.int64)),
        }

    def model_arguments(self) -> dict[str, Any]:
        """The head over tokens, with the names of the labels."""
        from transformers import AutoModelForTokenClassification

        return task_head(AutoModelForTokenClassification, self.labels, self.new_head)

    def task_model(self, pretrained: PreTrainedModel) -> nn.Module:
        """The model with its head and loss."""
        from runner.models.finetuning import TokenClassifier

        check_length(pretrained, self.max_sequence_length)
        return TokenClassifier(pretrained, self.constrained_decoding)
