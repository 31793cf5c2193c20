"""Objective and task model of ranking: each candidate is a document, and the candidates of a list stay together.

The loss of a list is 0 if no grade is known, else one of these:
- `listwise`: the cross-entropy of the softmax over a list, with target probabilities in proportion to the grades:
  ListNet (Cao et al., ICML 2007). For few relevant candidates among many; the best first choice.
- `ranknet`: the logistic loss of each pair of a better and a worse candidate (Burges et al., ICML 2005). For grades that
  only define an order.
- `margin`: the squared error of such a pair's difference of scores, compared with its difference of grades: MarginMSE
  (Hofstaetter et al., arXiv 2010.02666). For grades that are the scores of a teacher.
- `pointwise`: binary cross-entropy with logits of each candidate; a grade above 1 counts as 1. For scores that mean the
  same for every query, such as for a threshold.

Letters in shapes: E lists, X candidates of all lists, C of the longest. After the end of a list `scores` [E, C]
are -inf and `grades` [E, C] are NaN.
"""

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from tiryns.conf.objective.labelled import Ranking
from tiryns.runner.data.labelled.labels import SINGLE
from tiryns.runner.data.micro_batch import FlatSamples, MicroBatch
from tiryns.runner.models.finetuning import SequenceClassifier
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.objectives.labelled import finetuning
from tiryns.runner.objectives.options import takes_options
from tiryns.runner.objectives.rows import Places, Shape
from tiryns.runner.order.keyed import token_bits
from tiryns.runner.order.ranges import ranges
from tiryns.runner.widening import widen


def listwise(scores: Tensor, grades: Tensor) -> Tensor:
    """Returns the term of each candidate [E, C] in the cross-entropy of its list."""
    mass = grades.nan_to_num(0.0)
    shares = mass / mass.sum(-1, keepdim=True).clamp_min(torch.finfo(mass.dtype).tiny)
    return -shares * scores.log_softmax(-1).masked_fill(shares == 0, 0.0)


def pointwise(scores: Tensor, grades: Tensor) -> Tensor:
    """Returns the binary cross-entropy of each candidate [E, C]."""
    targets, unknown = grades.nan_to_num(0.0).clamp_max(1.0), grades.isnan()
    logits = scores.masked_fill(unknown, 0.0)
    losses = functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    return losses.masked_fill(unknown, 0.0)


def ranknet(scores: Tensor, grades: Tensor) -> Tensor:
    """Returns the logistic loss of each pair [E, C, C]."""
    return functional.softplus(-margins(scores, grades)).masked_fill(~preferences(grades), 0.0)


def margin(scores: Tensor, grades: Tensor) -> Tensor:
    """Returns the squared error of each pair's margin [E, C, C]."""
    errors = margins(scores, grades) - margins(grades, grades)
    return errors.square().masked_fill(~preferences(grades), 0.0)


def preferences(grades: Tensor) -> Tensor:
    """Whether the first candidate of each pair is better than the second, bool [E, C, C]."""
    return grades[:, :, None] > grades[:, None, :]


def margins(scores: Tensor, grades: Tensor) -> Tensor:
    """Returns the difference of the scores of each pair [E, C, C]; a candidate without a grade has score 0."""
    values = scores.masked_fill(grades.isnan(), 0.0)
    return values[:, :, None] - values[:, None, :]


LOSSES = {loss.__name__: loss for loss in (listwise, ranknet, margin, pointwise)}


def list_losses(loss: str, scores: Tensor, grades: Tensor) -> Tensor:
    """Returns the sum of the losses of each list [E].

    Example:
        >>> scores, grades = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0]])
        >>> [round(list_losses(loss, scores, grades).item(), 4) for loss in LOSSES]
        [0.3133, 0.3133, 0.0, 1.0064]
    """
    return LOSSES[loss](scores, grades.to(scores.dtype)).flatten(1).sum(-1)


def list_weights(loss: str, grades: Tensor) -> Tensor:
    """Returns each list's part [E] of the loss's divisor: 1, its number of candidates or of pairs; 0 without grades.

    Example:
        >>> grades = torch.tensor([[2.0, 0.0, 1.0]])
        >>> [list_weights(loss, grades).item() for loss in LOSSES]
        [1.0, 3.0, 3.0, 3.0]
    """
    mask = ~grades.isnan()
    masks = {"listwise": mask.any(-1, keepdim=True), "pointwise": mask}
    return (masks[loss] if loss in masks else preferences(grades)).flatten(1).sum(-1, dtype=torch.float32)


class RankingModel(SequenceClassifier):
    """Scores each candidate from the pooled state of its tokens; the loss is over the candidates of a list."""

    def __init__(self, pretrained: PreTrainedModel, loss: str) -> None:
        super().__init__(pretrained, SINGLE)
        self.loss = loss

    def head_tokens(self, micro_batch: MicroBatch) -> int:
        return len(micro_batch["choice_places"])

    def forward(self, micro_batch: MicroBatch) -> dict[str, Any]:
        """Returns the sum of the `loss` over lists with grades, and `logits` [E, C], -inf beyond a list."""
        grades = micro_batch["grades"]
        scores = widen(self.outputs(micro_batch).logits)[:, 0]
        none = scores.new_full((grades.numel(),), -float("inf"))
        logits = none.index_copy(0, micro_batch["choice_places"], scores).view_as(grades)
        losses = list_losses(self.loss, logits, grades)
        result: dict[str, Any] = {"loss": losses.sum(), "logits": logits.detach()}
        if self.by_row:
            result["row_sums"] = {"loss": losses.double(), "weight": list_weights(self.loss, grades).double()}
        return result


class RankingCollator(finetuning.ExampleLabels):
    """Ranks the candidates of a query by their grades; see `tiryns.runner.tasks.ranking.objective` for each `loss`.

    Samples in a list are the output of a tokenizer for a query and one candidate each, with its grade.

    Example:
        >>> collator = RankingCollator(0, 4, 50)
        >>> batch = collator([{"input_ids": [2, 11, 3, 7], "label": 1.0}, {"input_ids": [2, 11, 3], "label": 0.0}])
        >>> batch["input_ids"].tolist(), batch["labels"].tolist()
        ([[2, 11, 3, 7], [2, 11, 3, 0]], [1.0, 0.0])
    """

    packs = True
    columns = ("token_type_ids",)
    auto = "AutoModelForSequenceClassification"
    predicts_with: ClassVar[tuple[str, ...]] = ("loss",)
    options: Ranking

    @takes_options(Ranking, label_column="label")
    def __init__(self, **shared: Any) -> None:
        super().__init__(**shared)
        finetuning.check_labelled(self, "ranking")
        self.loss = self.options.loss

    def micro_batch(self, tokenized: FlatSamples) -> MicroBatch:
        """Returns the `MicroBatch` of the candidates of all samples, each a document with its own key."""
        keys = token_bits(tokenized["keys"], tokenized["num_choices"])
        return super().micro_batch({**tokenized, "lengths": tokenized["choice_lengths"], "keys": keys})

    def weight(self, labelled: FlatSamples) -> float:
        """Returns the number of lists, candidates or pairs over which the loss is taken."""
        return float(list_weights(self.loss, self.lists(labelled)[0]).sum())

    def extra_fields(self, labelled: FlatSamples, places: Places, shape: Shape) -> MicroBatch:
        """Returns `samples` and `num_choices` [E], `grades` [E, C], `choice_places` [X], and `token_type_ids` [X, T]."""
        grades, cells = self.lists(labelled)
        fields = super().extra_fields(labelled, places, shape)
        fields["num_choices"] = torch.from_numpy(labelled["num_choices"])
        fields["choice_places"], fields["grades"] = torch.from_numpy(cells), grades
        return fields

    def lists(self, labelled: FlatSamples) -> tuple[Tensor, NDArray[np.int64]]:
        """Returns the grades [E, C], NaN if unknown or after a list's end, and each candidate's flat index [X]."""
        counts, most = labelled["num_choices"], int(labelled["num_choices"].max())
        cells = ranges(np.arange(len(counts)) * most, counts)
        grades = np.full(len(counts) * most, np.nan, dtype=np.float32)
        grades[cells] = self.grades(labelled)
        return torch.from_numpy(grades.reshape(-1, most)), cells

    def grades(self, labelled: FlatSamples) -> NDArray[np.number]:
        """Returns the grade of each candidate [X], NaN for unknown."""
        return labelled["example_labels"]

    def head_config(self) -> dict[str, object]:
        """Returns the config of one score, which sentence-transformers reads without a sigmoid."""
        identity = {"activation_fn": "torch.nn.modules.linear.Identity"}
        return {"num_labels": 1, "sentence_transformers": identity}

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        return RankingModel(pretrained, self.loss)
