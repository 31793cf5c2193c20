"""Loss and metrics of one evaluated set."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor
from torchmetrics import Metric

from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.evaluation.metrics import get_metrics_for_task
from tiryns.runner.evaluation.predictions import Gather
from tiryns.runner.evaluation.totals import Totals, mean_loss
from tiryns.runner.tasks.base import Evaluated, TrainerTask


@dataclass(eq=False)
class SetFigures:
    """Adds up batches of one set: sums for the loss, and the task's metrics, whose states are joined over the ranks.

    `names` are those of the labels. Each window of a question counts by itself.
    """

    task: TrainerTask
    names: Sequence[str]
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
        for part in self.task.measured(Evaluated(micro_batch, output, self.names, self.decode)):
            if part.kind not in self.known:
                made = get_metrics_for_task(part.kind, max(2, len(self.names)))
                self.known[part.kind] = {n: metric.to(output["loss"].device) for n, metric in made.items()}
            for name, metric in self.known[part.kind].items():
                if part.only is None or name in part.only:
                    self.metrics[name] = metric
                    if len(part.true):
                        metric.update(part.predicted, part.true)

    def finish(self, gather: Gather, sum_over_ranks: Callable[[Totals], Totals]) -> Totals:
        """The `loss` per target and the metrics by name, those of one process over the whole set."""
        totals = sum_over_ranks({"loss": self.loss, "weight": self.weight})
        return mean_loss(totals) | {name: float(metric.compute()) for name, metric in self.metrics.items()}
