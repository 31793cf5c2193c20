"""Classification of words: the label of a word is the target of its first piece, or of all pieces."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from tiryns.conf.objective.labelled import TokenClassification
from tiryns.runner.data.micro_batch import FlatSamples
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.objectives.labelled import finetuning
from tiryns.runner.objectives.labelled.label_options import SETTINGS, LabelCollator
from tiryns.runner.objectives.options import takes_options
from tiryns.runner.objectives.rows.layout import IGNORED
from tiryns.runner.objectives.rows.padded import label_tensor


class TokenClassificationCollator(finetuning.WordLabels, LabelCollator):
    """Classifies words by their first pieces; each target weighs the same, or as `class_weights` say.

    With `label_all_pieces` every piece of a word is a target. `new_head` replaces the head of a model trained for other
    labels. With `constrained_decoding` the tags of a sentence are predicted together, by their scheme.

    Samples in a list have a label per *token*, -100 for none; special tokens never have one (leave the unknown token out
    of `special_token_ids` to train on words that became it).

    Example:
        >>> collator = TokenClassificationCollator(0, 4, 50, special_token_ids=[2, 3])
        >>> samples = [{"input_ids": [2, 11, 12, 3], "labels": [5, 1, -100, 5]}, {"input_ids": [13], "labels": [0]}]
        >>> collator(samples)["labels"].tolist()
        [[-100, 1, -100, -100], [0, -100, -100, -100]]
    """

    options: TokenClassification
    built_with = SETTINGS

    @takes_options(TokenClassification, label_column="labels")
    def __init__(self, **shared: Any) -> None:
        super().__init__(**shared)
        finetuning.check_labelled(self, "token_classification")
        self.new_head = self.options.new_head

    def flat_samples(self, tokenized: dict[str, Any], real: NDArray[np.bool_]) -> FlatSamples:
        """The real tokens with their labels; `labels` may be lists of different lengths."""
        labels = finetuning.given_labels(self, tokenized)
        if not isinstance(labels, torch.Tensor):
            labels = label_tensor(labels, [len(row) for row in labels], real.shape[1])
        if labels.shape != real.shape:
            raise ValueError(f"labels have shape {tuple(labels.shape)}, but the tokens {real.shape}")
        flat = super().flat_samples(tokenized, real)
        return self.labels_of_tokens(flat, "token_labels", labels.numpy()[real])

    def flat_labels(self, tokenized: FlatSamples) -> FlatSamples:
        """The label of each piece [N], -100 for special tokens and, unless all pieces count, for later pieces."""
        labels = tokenized["token_labels"]
        if not self.options.label_all_pieces:
            labels = np.where(tokenized["first_pieces"], labels, IGNORED)
        return {"input_ids": tokenized["input_ids"], "labels": labels}

    def weight(self, labelled: FlatSamples) -> float:
        """The number of targets; in training the sum of the weights of their labels."""
        targets = labelled["labels"][labelled["labels"] != IGNORED]
        return float(len(targets)) if labelled.get("evaluation") else self.weights_of(targets)

    def settings(self) -> dict[str, Any]:
        """The settings of decoding."""
        return {"constrained_decoding": self.options.constrained_decoding}

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """The model with its head and loss."""
        from tiryns.runner.models.finetuning import TokenClassifier

        return TokenClassifier(pretrained, self.loss_of(pretrained))
