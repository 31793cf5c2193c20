"""Loss and metrics of one evaluated set, from what a task's model makes of its batches."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from iolaus.runner.data.labelled.tags import is_bio
from iolaus.runner.data.micro_batch import MicroBatch
from iolaus.runner.evaluation import Predictions
from iolaus.runner.evaluation.metrics import ENTITY_FIGURES, get_metrics_for_task
from iolaus.runner.objectives.layout import IGNORED

Decode = Callable[[Tensor], str]
"""The text of token ids."""


class SetFigures:
    """Adds up batches of one set: sums for the loss, and the task's metrics, whose states are joined over the ranks.

    `names` are those of the labels. With `predictions` windows of questions are joined as those say; without, each window
    counts by itself.
    """

    def __init__(
        self, task: str, names: Sequence[str], predictions: Predictions | None, decode: Decode | None
    ) -> None:
        self.task, self.names, self.predictions, self.decode = task, list(names), predictions, decode
        self.loss, self.weight = 0.0, 0.0
        self.metrics: dict[str, Metric] = {}

    def add(self, micro_batch: MicroBatch, output: Mapping[str, Tensor], problem_type: str) -> None:
        """Takes in a batch."""
        self.loss += float(output["loss"])
        self.weight += float(micro_batch["weight"])
        if self.predictions is not None:
            self.predictions.add(micro_batch, output)
        elif self.task == "classification":
            self._add_texts(micro_batch["example_labels"], output["logits"], problem_type)
        elif self.task == "token_classification":
            self._add_tokens(micro_batch, output["logits"].argmax(-1))
        elif self.decode is not None:
            self._add_answers(micro_batch, output)

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

    def _add_texts(self, labels: Tensor, logits: Tensor, problem_type: str) -> None:
        kind, predicted, known = "classification", logits.argmax(-1), labels != IGNORED
        if problem_type == "regression":
            kind, predicted, known = "regression", logits[:, 0], ~labels.isnan()
        elif problem_type == "multi_label_classification":
            kind, predicted, known = "multi_label", logits > 0, ~labels.isnan().any(-1)
            labels = labels > 0.5
        self._start({kind: None}, predicted.device)
        for metric in self.metrics.values():
            if known.any():
                metric.update(predicted[known], labels[known])

    def _add_tokens(self, micro_batch: MicroBatch, predicted: Tensor) -> None:
        """Labels of targets; those of entities by row, where labels are BIO tags, else a mean of F1 over the labels."""
        tags = is_bio(self.names)
        wanted = {"token_classification": None if tags else ["accuracy"]}
        self._start(wanted if tags else {**wanted, "classification": ["macro_f1"]}, predicted.device)
        targets = micro_batch["targets"]
        for name, metric in self.metrics.items():
            if name in ENTITY_FIGURES:
                rows = (micro_batch["target_positions"] // micro_batch["input_ids"].shape[1]).tolist()
                metric.update(self._by_row(rows, predicted), self._by_row(rows, targets))
            elif len(targets):
                metric.update(predicted, targets)

    def _by_row(self, rows: list[int], labels: Tensor) -> list[list[str]]:
        sentences: dict[int, list[str]] = {}
        for row, label in zip(rows, labels.tolist(), strict=True):
            sentences.setdefault(row, []).append(self.names[label])
        return list(sentences.values())

    def _add_answers(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> None:
        assert self.decode is not None
        self._start({"question_answering": None}, output["score"].device)
        empty = (output["null_score"] > output["score"]) | ~output["score"].isfinite()
        for row, ids in enumerate(micro_batch["input_ids"]):
            first, last = int(micro_batch["starts"][row]), int(micro_batch["ends"][row])
            if first == IGNORED:
                continue
            accepted = [self.decode(ids[first : last + 1])] if last > 0 else []
            best = slice(int(output["first"][row]), int(output["last"][row]) + 1)
            predicted = "" if empty[row] else self.decode(ids[best])
            for metric in self.metrics.values():
                metric.update([predicted], [accepted])

    def _start(self, tasks: Mapping[str, list[str] | None], device: torch.device) -> None:
        """Makes the metrics of some tasks at the first batch, all or those of given names."""
        if self.metrics:
            return
        for task, names in tasks.items():
            found = get_metrics_for_task(task, max(2, len(self.names)))
            self.metrics |= {n: m.to(device) for n, m in found.items() if names is None or n in names}
