"""Objective and task model of ranking: each candidate of a list is a document, and those of a list stay together.

Letters in shapes: E lists, X candidates of all lists, C those of the longest.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
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
from tiryns.runner.tasks.ranking.losses import list_losses, list_weights
from tiryns.runner.widening import widened


class RankingModel(SequenceClassifier):
    """Scores each candidate from the pooled state of its tokens; the loss is over those of a list."""

    def __init__(self, pretrained: PreTrainedModel, loss: str) -> None:
        super().__init__(pretrained, SINGLE)
        self.loss = loss

    def head_tokens(self, micro_batch: MicroBatch) -> int:
        """One of each candidate."""
        return len(micro_batch["choice_places"])

    def forward(self, micro_batch: MicroBatch) -> dict[str, Any]:
        """The sum of the `loss` over lists with grades, and `logits` [E, C], -inf beyond a list."""
        grades = micro_batch["grades"]
        scores = widened(self.outputs(micro_batch).logits)[:, 0]
        none = scores.new_full((grades.numel(),), -float("inf"))
        logits = none.index_copy(0, micro_batch["choice_places"], scores).view_as(grades)
        losses = list_losses(self.loss, logits, grades)
        result: dict[str, Any] = {"loss": losses.sum(), "logits": logits.detach()}
        if self.by_row:
            result["row_sums"] = {"loss": losses.double(), "weight": list_weights(self.loss, grades).double()}
        return result


class RankingCollator(finetuning.ExampleLabels):
    """Ranks the candidates of a query by their grades; see `tiryns.runner.tasks.ranking.losses` for each `loss`.

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
    options: Ranking

    @takes_options(Ranking, label_column="label")
    def __init__(self, **shared: Any) -> None:
        super().__init__(**shared)
        finetuning.check_labelled(self, "ranking")
        self.loss = self.options.loss

    def micro_batch(self, tokenized: FlatSamples) -> MicroBatch:
        """The `MicroBatch` of the candidates of all samples, each a document with a key of its own."""
        keys = token_bits(tokenized["keys"], tokenized["num_choices"])
        return super().micro_batch({**tokenized, "lengths": tokenized["choice_lengths"], "keys": keys})

    def weight(self, labelled: FlatSamples) -> float:
        """The number of lists, candidates or pairs that the loss is of."""
        return float(list_weights(self.loss, self.lists(labelled)[0]).sum())

    def extra_fields(self, labelled: FlatSamples, places: Places, shape: Shape) -> MicroBatch:
        """`samples` and `num_choices` [E], `grades` [E, C], `choice_places` [X], and `token_type_ids` [X, T]."""
        grades, cells = self.lists(labelled)
        fields = super().extra_fields(labelled, places, shape)
        fields["num_choices"] = torch.from_numpy(labelled["num_choices"])
        fields["choice_places"], fields["grades"] = torch.from_numpy(cells), grades
        return fields

    def lists(self, labelled: FlatSamples) -> tuple[Tensor, NDArray[np.int64]]:
        """The grades [E, C], NaN beyond a list and where they are not known, and the cell of each candidate [X]."""
        counts, most = labelled["num_choices"], int(labelled["num_choices"].max())
        cells = ranges(np.arange(len(counts)) * most, counts)
        grades = np.full(len(counts) * most, np.nan, dtype=np.float32)
        grades[cells] = self.grades(labelled)
        return torch.from_numpy(grades.reshape(-1, most)), cells

    def grades(self, labelled: FlatSamples) -> NDArray[np.number]:
        """The grade of each candidate [X], NaN for unknown."""
        return labelled["example_labels"]

    def head_config(self) -> dict[str, object]:
        """One score, which sentence-transformers takes as it is, without a sigmoid."""
        identity = {"activation_fn": "torch.nn.modules.linear.Identity"}
        return {"num_labels": 1, "sentence_transformers": identity}

    def task_model(self, pretrained: PreTrainedModel) -> TaskModel:
        """The model with its head and loss."""
        return RankingModel(pretrained, self.loss)
