"""The base class of objectives that train on labels: the settings of their loss, and what a target weighs."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedModel

from tiryns.conf.objective import labelled as options
from tiryns.runner.data.labelled.labels import MULTI, REGRESSION, LabelCounts, by_label
from tiryns.runner.models.label_loss import LabelLoss
from tiryns.runner.models.packed.dropout import has_dropout
from tiryns.runner.objectives.base import FlatCollator

SETTINGS = ("class_weights", "label_smoothing", "focal_gamma", "r_drop")
"""The settings of the loss."""


class LabelCollator(FlatCollator):
    """Trains on labels with the loss that `LabelLoss` describes; see `conf.objective.labelled.LabelLoss` for settings.

    `labels` are their names, and `label_counts` gives how often each holds in the training data, for `balanced` weights.
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
        used = [name for name in SETTINGS if getattr(self.options, name)]
        if used and problem_type == REGRESSION:
            raise ValueError(f"objective.{used[0]} is for labels, and this data has numbers: leave it out")
        self.adds_to_loss = bool(used)
        self.class_weights: NDArray[np.float64] | None = None
        """The weight of each label [C]; None for equal ones."""
        if class_weights == options.BALANCED:
            if label_counts is None:
                raise ValueError(
                    "objective.class_weights=balanced needs label_counts, how often each label holds in the training data"
                )
            self.class_weights = balanced(label_counts(), self.labels, problem_type == MULTI)
        elif class_weights is not None:
            self.class_weights = np.array(
                by_label("class_weights", class_weights, self.labels, 1.0), np.float64
            )

    def weights_of(self, labels: NDArray[np.int64]) -> float:
        """The sum of the weights of targets [M], all of which are labels."""
        if self.class_weights is None or self.problem_type == MULTI:
            return float(len(labels))
        return float(self.class_weights[labels].sum())

    def loss_of(self, pretrained: PreTrainedModel) -> LabelLoss | None:
        """The loss of training; None for the plain one. Raises ValueError for R-Drop without dropout."""
        if not self.adds_to_loss:
            return None
        chosen = self.options
        if chosen.r_drop and not has_dropout(pretrained):
            raise ValueError(
                f"objective.r_drop={chosen.r_drop:g} compares two passes with other dropout, and this model has none: "
                "set model.dropout=0.1 (or for model=pretrained the rates of its architecture in model.config)"
            )
        weights = None if self.class_weights is None else self.class_weights.tolist()
        multi = self.problem_type == MULTI
        return LabelLoss(weights, chosen.label_smoothing, chosen.focal_gamma, chosen.r_drop, multi)


def balanced(counts: LabelCounts, labels: Sequence[str], several: bool) -> NDArray[np.float64]:
    """Weights [C] with which labels count the same: items / (labels * items of the label), as scikit-learn's.

    Where several labels may hold, how many items lack the label for each that has it. Raises ValueError for a label
    without examples, or, where several may hold, without an example that lacks it.

    Example:
        >>> balanced(LabelCounts(np.array([6, 2]), 8), ["a", "b"], several=False).round(3).tolist()
        [0.667, 2.0]
        >>> balanced(LabelCounts(np.array([6, 2]), 8), ["a", "b"], several=True).round(3).tolist()
        [0.333, 3.0]
    """
    others = counts.items - counts.holds
    for holds, what in ((counts.holds, "no"), *(((others, "only"),) if several else ())):
        if len(empty := np.flatnonzero(holds == 0)):
            raise ValueError(
                f"objective.class_weights=balanced: the training data has {what} examples of the label "
                f"{labels[empty[0]]!r}; give weights by label, such as {{{labels[0]}: 2}}"
            )
    total = others if several else np.full(len(counts.holds), counts.items / len(counts.holds))
    return np.asarray(total / counts.holds, dtype=np.float64)
