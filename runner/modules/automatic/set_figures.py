"""Loss and metrics of one evaluated set."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.evaluation.metrics import get_metrics_for_task
from tiryns.runner.evaluation.predictions import Predictions
from tiryns.runner.tasks.base import Evaluated, Measured, TrainerTask


@dataclass(eq=False)
class SetFigures:
    """Adds up batches of one set: sums for the loss, and the task's metrics, whose states are joined over the ranks.

    `names` are those of the labels. `predictions` join the windows of a question; without them each window counts by
    itself.
    """

    task: TrainerTask
    names: Sequence[str]
    predictions: Predictions | None
    decode: Callable[[Tensor], str] | None
    loss: float = 0.0
    weight: float = 0.0
    metrics: dict[str, Metric] = field(default_factory=dict)
    known: dict[str, dict[str, Metric]] = field(default_factory=dict)
    """All metrics of each kind; `metrics` are those of them that the task wants."""

    def add(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> None:
        """Takes in a batch."""
        self.loss += float(output["loss"])
        self.weight += float(micro_batch["weight"])
        if self.predictions is not None:
            self.predictions.add(micro_batch, output)
            return
        for measured in self.task.measured(Evaluated(micro_batch, output, self.names, self.decode)):
            for name, metric in self._metrics(measured, output["loss"].device).items():
                self.metrics[name] = metric
                if len(measured.true):
                    metric.update(measured.predicted, measured.true)

    def figures(
        self,
        sum_over_ranks: Callable[[dict[str, float]], dict[str, float]],
        gather: Callable[[Any], list[Any]],
    ) -> dict[str, float]:
        """The `loss` per target and the metrics by name, those of one process over the whole set."""
        totals = sum_over_ranks({"loss": self.loss, "weight": self.weight})
        found = {"loss": totals["loss"] / max(totals["weight"], 1e-12)}
        if self.predictions is not None:
            self.predictions.join(gather)
            return found | self.predictions.metrics()
        return found | {name: float(metric.compute()) for name, metric in self.metrics.items()}

    def _metrics(self, measured: Measured, device: torch.device) -> dict[str, Metric]:
        """The metrics by name that predictions are for, made at the first batch."""
        if measured.kind not in self.known:
            made = get_metrics_for_task(measured.kind, max(2, len(self.names)))
            self.known[measured.kind] = {name: metric.to(device) for name, metric in made.items()}
        known = self.known[measured.kind]
        return {name: known[name] for name in known if measured.only is None or name in measured.only}
