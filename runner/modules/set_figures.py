"""Loss and metrics of one evaluated set, from what a task's model makes of its batches."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor
from torchmetrics import Metric

from iolaus.runner.data.micro_batch import MicroBatch
from iolaus.runner.evaluation.metrics import get_metrics_for_task
from iolaus.runner.evaluation.predictions import Predictions
from iolaus.runner.tasks.base import Evaluated, Measured, TrainerTask


class SetFigures:
    """Adds up batches of one set: sums for the loss, and the task's metrics, whose states are joined over the ranks.

    `names` are those of the labels. With `predictions` windows of questions are joined as those say; without, each window
    counts by itself.
    """

    def __init__(
        self,
        task: TrainerTask,
        names: Sequence[str],
        predictions: Predictions | None,
        decode: Callable[[Tensor], str] | None,
    ) -> None:
        self.task, self.names, self.predictions, self.decode = task, list(names), predictions, decode
        self.loss, self.weight = 0.0, 0.0
        self.metrics: dict[str, Metric] = {}
        self._made: dict[str, dict[str, Metric]] = {}

    def add(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> None:
        """Takes in a batch."""
        self.loss += float(output["loss"])
        self.weight += float(micro_batch["weight"])
        if self.predictions is not None:
            self.predictions.add(micro_batch, output)
            return
        for measured in self.task.measured(Evaluated(micro_batch, output, self.names, self.decode)):
            for name in self._started(measured, output["loss"]):
                if len(measured.true):
                    self.metrics[name].update(measured.predicted, measured.true)

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

    def _started(self, measured: Measured, like: Tensor) -> list[str]:
        """The names of the metrics that are meant, which are made at the first batch."""
        if measured.kind not in self._made:
            found = get_metrics_for_task(measured.kind, max(2, len(self.names)))
            self._made[measured.kind] = {name: metric.to(like.device) for name, metric in found.items()}
        made = self._made[measured.kind]
        names = [name for name in made if measured.only is None or name in measured.only]
        self.metrics |= {name: made[name] for name in names}
        return names
