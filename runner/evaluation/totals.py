"""Sums over an evaluated set, and its metrics: the same in training, in prediction and in evaluation."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.evaluation.predictions import Gather, Predictions

SUMS = ("loss", "weight", "correct")
"""The sums over a labelled set."""

Totals = dict[str, float]


class LabelledSet:
    """Adds up a model's output for the micro-batches of a labelled set: sums for the loss, and the predictions.

    Each of an output's `part_losses` is a sum over the micro-batch; the denominator of the same name divides it. If
    `calibrating`, the task's decision rules for other sets, such as thresholds, are chosen on this set.
    """

    def __init__(self, predictions: Predictions, calibrating: bool = False) -> None:
        self.predictions, self.calibrating = predictions, calibrating
        self._sums = {name: torch.zeros((), dtype=torch.float64) for name in SUMS}

    def add(self, micro_batch: MicroBatch, output: Mapping[str, Any]) -> None:
        """Adds a micro-batch."""
        sums = {"loss": output["loss"], "weight": micro_batch["weight"], "correct": output.get("correct", 0)}
        for name, part in output.get("part_losses", {}).items():
            sums |= {f"{name}/loss": part, f"{name}/weight": micro_batch["denominators"][name]}
        _add(self._sums, sums, output["loss"].device)
        self.predictions.add(micro_batch, output)

    def finish(
        self,
        gather: Gather,
        sum_over_ranks: Callable[[Totals], Totals],
        of_sums: Callable[[Totals], Totals] | None = None,
    ) -> Totals:
        """Joins the predictions of all ranks; returns the result of `of_sums` and the metrics; empty without labels."""
        self.predictions.join(gather)
        if self.calibrating:
            self.predictions.calibrate()
        totals = sum_over_ranks({name: float(value) for name, value in self._sums.items()})
        metrics = self.predictions.metrics()
        return (of_sums or mean_loss)(totals) | self.predictions.losses(totals) | metrics if metrics else {}


def mean_loss(totals: Mapping[str, float]) -> Totals:
    """Returns the `loss` per unit of weight."""
    return {"loss": totals["loss"] / max(totals["weight"], 1e-12)}


def loss_and_accuracy(totals: Mapping[str, float]) -> Totals:
    """Returns the `loss` per unit of weight, and as `token_accuracy` the share of right targets."""
    return {**mean_loss(totals), "token_accuracy": totals["correct"] / max(totals["weight"], 1e-12)}


def bits_per_byte(loss: float, tokens_per_byte: float) -> float:
    """Converts a loss in nats per token to bits per byte of the text."""
    return loss / math.log(2) * tokens_per_byte


def add_sums(sums: dict[str, Tensor], micro_batch: MicroBatch, output: Mapping[str, Any]) -> None:
    """Adds a micro-batch's `weight`, `denominators` and the model's output for it to the sums over an evaluated set.

    The sums are in float64.
    """
    divisors = {**micro_batch.get("denominators", {}), "weight": micro_batch["weight"]}
    _add(sums, {**output, **divisors}, output["loss"].device)


def _add(sums: dict[str, Tensor], values: Mapping[str, Any], device: torch.device) -> None:
    for name, value in values.items():
        term = torch.as_tensor(value, dtype=torch.float64).detach().to(device)
        sums[name] = sums[name].to(device) + term if name in sums else term
