"""Shared parts of finetuning objectives: labels of samples, their loss and weights, the head, micro-batch fields."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from tiryns.conf.objective import labelled as options
from tiryns.runner.data.labelled.labels import MULTI, REGRESSION, LabelCounts, by_label
from tiryns.runner.data.micro_batch import Batch, FlatSamples, MicroBatch
from tiryns.runner.models.label_loss import LabelLoss
from tiryns.runner.models.packed.dropout import has_dropout
from tiryns.runner.objectives.base import Collator, FlatCollator
from tiryns.runner.objectives.rows import IGNORED, Places, Shape, spread


def label_config(names: Sequence[str]) -> dict[str, object]:
    """Returns the fields of a model's config that name its labels."""
    return {"id2label": dict(enumerate(names)), "label2id": {name: i for i, name in enumerate(names)}}


class ExampleLabels(FlatCollator):
    """An objective whose targets are labels of whole samples instead of tokens."""

    def flat_samples(self, tokenized: Batch, real: NDArray[np.bool_]) -> FlatSamples:
        """Returns the real tokens, and the labels of the samples."""
        labels = torch.as_tensor(given_labels(self, tokenized)).numpy()
        return {**super().flat_samples(tokenized, real), "example_labels": labels}

    def flat_labels(self, tokenized: FlatSamples) -> FlatSamples:
        """Returns the tokens without targets, and the labels of the examples as `example_labels`."""
        labels = tokenized["example_labels"]
        if tokenized.get("filler"):
            labels = np.full_like(labels, IGNORED if labels.dtype.kind == "i" else np.nan)
        ids = tokenized["input_ids"]
        return {"input_ids": ids, "labels": np.full_like(ids, IGNORED), "example_labels": labels}

    def extra_fields(self, labelled: FlatSamples, places: Places, shape: Shape) -> MicroBatch:
        """Returns `example_labels` [D] or [D, C], `samples` [D], and for pairs `token_type_ids` [D, T]."""
        return {
            "example_labels": torch.from_numpy(labelled["example_labels"]),
            "samples": sample_numbers(labelled),
            **token_types(labelled, places, shape),
        }

    def rows(self, labelled: FlatSamples, places: Places, shape: Shape) -> Batch:
        """Returns `input_ids` [B, T], and `labels` of the samples."""
        labels = torch.from_numpy(labelled["example_labels"])
        return super().rows(labelled, places, shape) | {"labels": labels}


class WordLabels(FlatCollator):
    """An objective whose targets are labels of words, by default at the first piece of each."""

    packs = True
    auto = "AutoModelForTokenClassification"
    labels: list[str]

    def labels_of_tokens(self, flat: FlatSamples, name: str, labels: NDArray[np.int64]) -> FlatSamples:
        """Returns `flat` with `labels` [N, ...] as `name`, -100 at special tokens; each token counts as a word."""
        special = self.is_special[flat["input_ids"]].reshape(-1, *[1] * (labels.ndim - 1))
        fields: Any = {
            name: np.where(special, IGNORED, labels),
            "first_pieces": np.ones(len(labels), dtype=bool),
        }
        return {**flat, **fields}

    def extra_fields(self, labelled: FlatSamples, places: Places, shape: Shape) -> MicroBatch:
        """Returns `samples` [D]; `word_positions` and `words` [W], the place and the word of each first piece; and
        `read_positions` [R], the places of tokens that are a target or a first piece.
        """
        is_first = labelled["first_pieces"] & (not labelled.get("filler"))
        first = np.flatnonzero(is_first)
        return {
            "samples": sample_numbers(labelled),
            "read_positions": torch.from_numpy(places[is_first | (labelled["labels"] != IGNORED)]),
            "word_positions": torch.from_numpy(places[first]),
            "words": torch.from_numpy(labelled["words"][first].astype(np.int64)),
        }

    def head_config(self) -> dict[str, object]:
        """Returns the names of the labels."""
        return label_config(self.labels)


def check_labelled(collator: Collator, objective: str) -> None:
    """Raises ValueError if the data has no labels."""
    if collator.label_column is None:
        raise ValueError(f"objective={objective} needs labelled data, such as data={objective}")


def given_labels(collator: Collator, tokenized: Batch) -> Any:
    """Returns the labels of padded rows: `labels`, or the label column. Raises ValueError without them."""
    for name in ("labels", str(collator.label_column)):
        if name in tokenized:
            return tokenized[name]
    raise ValueError(f"the rows lack {collator.label_column!r}; they have {', '.join(tokenized)}")


def sample_numbers(labelled: FlatSamples) -> torch.Tensor:
    """Returns the index [D] of each sample in its set, -1 for fillers."""
    samples = labelled["samples"]
    return torch.from_numpy(np.full_like(samples, -1) if labelled.get("filler") else samples)


def token_types(labelled: FlatSamples, places: Places, shape: Shape) -> MicroBatch:
    """Returns `token_type_ids` [D, T] if the samples have them, else no fields."""
    if "token_type_ids" not in labelled:
        return {}
    return {"token_type_ids": spread(labelled["token_type_ids"], places, shape, 0)}


SETTINGS = ("class_weights", "label_smoothing", "focal_gamma", "r_drop")
"""The settings of the loss."""


class LabelCollator(FlatCollator):
    """Trains on labels with the loss that `LabelLoss` describes; see `conf.objective.labelled.LabelLoss` for settings.

    `labels` are the labels' names; `label_counts` counts them in the training data, for `balanced` weights.
    """

    options: options.LabelLoss

    def __init__(
        self,
        labels: Sequence[str] = (),
        problem_type: str = "",
        label_counts: Callable[[], LabelCounts] | None = None,
        **shared: Any,
    ) -> None:
        super().__init__(**shared)
        self.labels, self.problem_type = list(labels), problem_type
        class_weights = self.options.class_weights
        options.check_class_weights(class_weights)
        names = [name for name in SETTINGS if getattr(self.options, name)]
        if names and problem_type == REGRESSION:
            raise ValueError(f"objective.{names[0]} is for labels, and this data has numbers: leave it out")
        self.adds_to_loss = bool(names)
        self.class_weights: NDArray[np.float64] | None = None
        """The weight of each label [C]; None for equal ones."""
        if class_weights == options.BALANCED:
            if label_counts is None:
                raise ValueError(
                    "objective.class_weights=balanced needs label_counts, how often each label occurs in training"
                )
            self.class_weights = balanced_weights(label_counts(), self.labels, problem_type == MULTI)
        elif class_weights is not None:
            weights = by_label("class_weights", class_weights, self.labels, 1.0)
            self.class_weights = np.array(weights, np.float64)

    def weights_of(self, labels: NDArray[np.int64]) -> float:
        """Returns the sum of the weights of the targets `labels` [M], none of which may be missing."""
        if self.class_weights is None or self.problem_type == MULTI:
            return float(len(labels))
        return float(self.class_weights[labels].sum())

    def loss_of(self, pretrained: PreTrainedModel) -> LabelLoss | None:
        """Returns the training loss, None for the plain loss; raises ValueError for R-Drop on a model without dropout."""
        if not self.adds_to_loss:
            return None
        settings = self.options
        if settings.r_drop and not has_dropout(pretrained):
            raise ValueError(
                f"objective.r_drop={settings.r_drop:g} compares two passes with different dropout; this model has none: "
                "set model.dropout=0.1 (or for model=pretrained the rates of its architecture in model.config)"
            )
        weights = None if self.class_weights is None else self.class_weights.tolist()
        multi = self.problem_type == MULTI
        return LabelLoss(weights, settings.label_smoothing, settings.focal_gamma, settings.r_drop, multi)


def balanced_weights(counts: LabelCounts, labels: Sequence[str], several: bool) -> NDArray[np.float64]:
    """Returns weights [C] that balance the labels: items / (labels * items of the label), as in scikit-learn.

    With `several` labels per item the weight is (items without the label) / (items with it). Raises ValueError for a
    label that no example has, and with `several` also for a label that every example has.

    Example:
        >>> balanced_weights(LabelCounts(np.array([6, 2]), 8), ["a", "b"], several=False).round(3).tolist()
        [0.667, 2.0]
        >>> balanced_weights(LabelCounts(np.array([6, 2]), 8), ["a", "b"], several=True).round(3).tolist()
        [0.333, 3.0]
    """
    others = counts.items - counts.holds
    for holds, word in ((counts.holds, "no"), *(((others, "only"),) if several else ())):
        if len(empty := np.flatnonzero(holds == 0)):
            raise ValueError(
                f"objective.class_weights=balanced: the training data has {word} examples of the label "
                f"{labels[empty[0]]!r}; give weights by label, such as {{{labels[0]}: 2}}"
            )
    total = others if several else np.full(len(counts.holds), counts.items / len(counts.holds))
    return np.asarray(total / counts.holds, dtype=np.float64)
