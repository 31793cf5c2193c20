"""Sums over an evaluated set, and its figures: the same in training, in prediction and in evaluation."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from iolaus.runner.data.micro_batch import MicroBatch
from iolaus.runner.evaluation.predictions import Gather, Predictions

SUMS = ("loss", "weight", "correct")
"""The sums over a labelled set."""

Totals = dict[str, float]


class LabelledSet:
    """Adds up a model's output for the micro-batches of a labelled set: sums for the loss, and the predictions."""

    def __init__(self, predictions: Predictions, device: torch.device | None = None) -> None:
        self.predictions = predictions
        self._sums = torch.zeros(len(SUMS), dtype=torch.float64, device=device)

    def add(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> None:
        """Adds a micro-batch."""
        weight = torch.tensor(micro_batch["weight"], dtype=torch.float64, device=self._sums.device)
        correct = output.get("correct", torch.zeros_like(weight))
        self._sums += torch.stack([output["loss"].double(), weight, correct.double()])
        self.predictions.add(micro_batch, output)

    def finish(
        self,
        gather: Gather,
        sum_over_ranks: Callable[[Totals], Totals],
        of_sums: Callable[[Totals], Totals] | None = None,
    ) -> Totals:
        """Joins the predictions of all ranks; the figures `of_sums` and the metrics, none where there are no labels."""
        self.predictions.join(gather)
        totals = sum_over_ranks(dict(zip(SUMS, self._sums.tolist(), strict=True)))
        found = self.predictions.metrics()
        return (of_sums or mean_loss)(totals) | found if found else {}


def mean_loss(totals: Mapping[str, float]) -> Totals:
    """The `loss` per unit of weight."""
    return {"loss": totals["loss"] / max(totals["weight"], 1e-12)}


def loss_and_accuracy(totals: Mapping[str, float]) -> Totals:
    """The `loss` per unit of weight, and the share of the targets that are guessed right as `token_accuracy`."""
    return {**mean_loss(totals), "token_accuracy": totals["correct"] / max(totals["weight"], 1e-12)}


def bits_per_byte(loss: float, tokens_per_byte: float) -> float:
    """A loss in nats per token in bits per byte of the text."""
    return loss / math.log(2) * tokens_per_byte


def add_sums(sums: dict[str, Tensor], micro_batch: MicroBatch, output: Mapping[str, Any]) -> None:
    """Adds a micro-batch's `weight` and the model's output for it to the sums over an evaluated set, in float64."""
    weight = torch.as_tensor(micro_batch["weight"], dtype=torch.float64)
    for name, value in {**output, "weight": weight}.items():
        sums[name] = sums.get(name, 0) + value.detach().to(output["loss"].device, torch.float64)
