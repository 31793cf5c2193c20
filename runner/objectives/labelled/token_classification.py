"""Classification of words by their first pieces or by all pieces, with one column of labels or several columns."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from tiryns.conf.objective.labelled import JointTagging, TokenClassification
from tiryns.conf.values import AT_LEAST_0
from tiryns.runner.data.labelled.labels import by_label
from tiryns.runner.data.labelled.words.joint_tagging import columns_of_labels
from tiryns.runner.data.micro_batch import Batch, FlatSamples, MicroBatch
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.objectives.labelled import finetuning
from tiryns.runner.objectives.labelled.finetuning import SETTINGS, LabelCollator
from tiryns.runner.objectives.options import takes_options
from tiryns.runner.objectives.rows import IGNORED, Places, Shape, flat_column, label_tensor


class TokenClassificationCollator(finetuning.WordLabels, LabelCollator):
    """Classifies words by their first pieces; each target weighs the same, or as `class_weights` say.

    With `label_all_pieces` every piece of a word is a target. `new_head` replaces the head of a model trained for other
    labels. With `constrained_decoding` the tags of a sentence are decoded together and follow the scheme.

    Samples in a list have a label per *token*, -100 for none; special tokens never have one (leave the unknown token out
    of `special_token_ids` to train on words that became it).

    Example:
        >>> collator = TokenClassificationCollator(0, 4, 50, special_token_ids=[2, 3])
        >>> samples = [{"input_ids": [2, 11, 12, 3], "labels": [5, 1, -100, 5]}, {"input_ids": [13], "labels": [0]}]
        >>> collator(samples)["labels"].tolist()
        [[-100, 1, -100, -100], [0, -100, -100, -100]]
    """

    options: TokenClassification
    built_with = (*SETTINGS, "new_head")
    predicts_with = ("constrained_decoding",)

    @takes_options(TokenClassification, label_column="labels")
    def __init__(self, **shared: Any) -> None:
        super().__init__(**shared)
        finetuning.check_labelled(self, "token_classification")
        self.new_head = self.options.new_head

    def flat_samples(self, tokenized: Batch, real: NDArray[np.bool_]) -> FlatSamples:
        """Returns the real tokens with their labels; `labels` may be lists of different lengths."""
        labels = finetuning.given_labels(self, tokenized)
        if not isinstance(labels, torch.Tensor):
            labels = label_tensor(labels, [len(row) for row in labels], real.shape[1])
        if labels.shape != real.shape:
            raise ValueError(f"labels have shape {tuple(labels.shape)}, but tokens have {real.shape}")
        flat = super().flat_samples(tokenized, real)
        return self.labels_of_tokens(flat, "token_labels", labels.numpy()[real])

    def flat_labels(self, tokenized: FlatSamples) -> FlatSamples:
        """Returns the label of each piece [N], -100 for special tokens and, without `label_all_pieces`, later pieces."""
        labels = tokenized["token_labels"]
        if not self.options.label_all_pieces:
            labels = np.where(tokenized["first_pieces"], labels, IGNORED)
        return {"input_ids": tokenized["input_ids"], "labels": labels}

    def weight(self, labelled: FlatSamples) -> float:
        """Returns the number of targets; in training the sum of the weights of their labels."""
        targets = labelled["labels"][labelled["labels"] != IGNORED]
        return float(len(targets)) if labelled.get("evaluation") else self.weights_of(targets)

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        from tiryns.runner.models.finetuning import TokenClassifier

        return TokenClassifier(pretrained, self.loss_of(pretrained))


class JointTaggingCollator(finetuning.WordLabels):
    """Tags the first piece of each word in K columns; the loss is the weighted sum of the columns' mean losses.

    `labels` are the labels of all columns, as `column=label`, column by column. Words may lack a label in some
    columns: a mean is over the words of the global batch that have a label. `column_weights` are 1 by default.
    `new_head` and `constrained_decoding` are those of `TokenClassificationCollator`.

    Samples in a list have `tag_labels`, K labels per *token*, -100 for none.

    Example:
        >>> labels = ["pos=NOUN", "pos=VERB", "ner=O", "ner=B-PER"]
        >>> collator = JointTaggingCollator(0, 4, 50, labels=labels, column_weights={"ner": 2})
        >>> collator.weights
        {'pos': 1.0, 'ner': 2.0}
        >>> batch = collator([{"input_ids": [11, 12], "tag_labels": [[0, 1], [1, -100]]}])
        >>> batch["labels"].tolist()
        [[[0, 1], [1, -100]]]
    """

    options: JointTagging
    built_with = ("column_weights", "new_head")
    predicts_with = ("constrained_decoding", "column_weights")
    columns = ("tag_labels",)

    @takes_options(JointTagging)
    def __init__(self, labels: Sequence[str] = (), **shared: Any) -> None:
        super().__init__(**{**shared, "label_column": None})
        self.new_head = self.options.new_head
        self.labels, self.column_labels = list(labels), columns_of_labels(labels)
        if not self.column_labels or any("" in names for names in self.column_labels.values()):
            problem = "objective=joint_tagging needs data with several columns of labels: data=joint_tagging"
            raise ValueError(problem)
        column_weights = dict(self.options.column_weights or {})
        weights = by_label("column_weights", column_weights, list(self.column_labels), 1.0, "column")
        if any(map(AT_LEAST_0.problem, weights)) or not any(weights):
            expectation = "expected numbers of 0 or more, of which not all are 0"
            raise ValueError(f"objective.column_weights={column_weights!r}: {expectation}")
        self.weights = dict(zip(self.column_labels, map(float, weights), strict=True))
        """The weight of each column."""

    def flat_samples(self, tokenized: Batch, real: NDArray[np.bool_]) -> FlatSamples:
        """Returns the real tokens with their labels; special tokens have none."""
        flat = super().flat_samples(tokenized, real)
        return self.labels_of_tokens(flat, "tag_labels", flat_column(tokenized, "tag_labels", real))

    def flat_labels(self, tokenized: FlatSamples) -> FlatSamples:
        """Returns `tag_labels` [N, K] of first pieces, and `labels` [N], 0 for a token with a target in any column."""
        tags = np.where(tokenized["first_pieces"][:, None], tokenized["tag_labels"], IGNORED)
        labels = np.where((tags != IGNORED).any(1), 0, IGNORED)
        return {"input_ids": tokenized["input_ids"], "labels": labels, "tag_labels": tags}

    def extra_fields(self, labelled: FlatSamples, places: Places, shape: Shape) -> MicroBatch:
        """Returns the fields of words; `tag_targets` [M, K], and each column's number of targets as denominator."""
        targets = labelled["tag_labels"][labelled["labels"] != IGNORED]
        counts = (targets != IGNORED).sum(0)
        return {
            **super().extra_fields(labelled, places, shape),
            "tag_targets": torch.from_numpy(targets),
            "denominators": dict(zip(self.column_labels, map(float, counts), strict=True)),
        }

    def rows(self, labelled: FlatSamples, places: Places, shape: Shape) -> Batch:
        """Returns `input_ids` [B, T], and `labels` [B, T, K]."""
        labels = np.full((shape[0] * shape[1], len(self.column_labels)), IGNORED)
        labels[places] = labelled["tag_labels"]
        tensor = torch.from_numpy(labels.reshape(*shape, -1))
        return super().rows(labelled, places, shape) | {"labels": tensor}

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """Returns the model with its heads and the sum of their losses."""
        from tiryns.runner.models.finetuning import JointTagger

        sizes = {name: len(labels) for name, labels in self.column_labels.items()}
        return JointTagger(pretrained, sizes, self.weights)
