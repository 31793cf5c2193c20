"""Predictions for numbered places of a data set, from all ranks, and the measures and tables that tasks share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from iolaus.runner.data.micro_batch import MicroBatch
from iolaus.runner.evaluation.metrics import get_metrics_for_task

Gather = Callable[[Any], list[Any]]
"""Hands an object of every rank to every rank."""


class Predictions(ABC):
    """Predictions for numbered places of a set (its examples, words or windows): `add`, then `join`, then the rest.

    After `join` every rank holds the predictions for the whole set, so every rank computes the same figures, and they
    are those of one process.
    """

    def __init__(self, sequences: Any) -> None:
        self.sequences = sequences
        self._parts: list[dict[str, NDArray[Any]]] = []
        self.values: dict[str, NDArray[Any]] = {}

    @abstractmethod
    def read(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """`places` [M], -1 for what must not count, and values [M, ...] predicted for them."""

    @abstractmethod
    def size(self) -> int:
        """How many places the set has."""

    @abstractmethod
    def metrics(self) -> dict[str, float]:
        """The task's metrics; none where the set has no labels."""

    def figure_names(self) -> list[str]:
        """The names of the `metrics` of this set before any prediction, the one that says which checkpoint is best first.

        Empty where a task does not tell.
        """
        return []

    @abstractmethod
    def rows(self) -> Iterator[dict[str, Any]]:
        """A line of `predictions.jsonl` for each example."""

    def tables(self) -> dict[str, Any]:
        """What `evaluation.json` has beside the metrics."""
        return {}

    def add(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> None:
        """Takes in what this rank predicts for a micro-batch."""
        found = {name: value.cpu().numpy() for name, value in self.read(micro_batch, output).items()}
        counts = found["places"] >= 0
        self._parts.append({name: value[counts] for name, value in found.items()})

    def join(self, gather: Gather) -> None:
        """Puts the predictions of all ranks into place; `seen` tells which places have one."""
        mine = {n: np.concatenate([part[n] for part in self._parts]) for n in (self._parts or [{}])[0]}
        self._parts = []
        ranks = [rank for rank in gather(mine) if rank]
        self.seen = np.zeros(self.size(), dtype=bool)
        for rank in ranks:
            places = rank.pop("places")
            self.seen[places] = True
            for name, value in rank.items():
                whole = self.values.setdefault(name, np.zeros((self.size(), *value.shape[1:]), value.dtype))
                whole[places] = value


def metric_names(task: str, first: str, leave_out: Sequence[str] = ()) -> list[str]:
    """The names of a task's metrics, one of them before the others."""
    names = [name for name in get_metrics_for_task(task, 1) if name not in leave_out]
    return [first, *(name for name in names if name != first)]


def measured(
    task: str, num_labels: int, predicted: Any, true: Any, only: Sequence[str] | None = None
) -> dict[str, float]:
    """The metrics of a task, or `only` some, computed by this process alone; none where there is nothing to measure."""
    if not len(true):
        return {}
    found = {}
    for name, metric in get_metrics_for_task(task, num_labels, sync_on_compute=False).items():
        if only is None or name in only:
            metric.update(*(_as_tensor(values) for values in (predicted, true)))
            found[name] = float(metric.compute())
    return found


def _as_tensor(values: Any) -> Any:
    """An array as a tensor; lists of words stay as they are."""
    return torch.from_numpy(np.ascontiguousarray(values)) if isinstance(values, np.ndarray) else values


def confusion_tables(
    names: Sequence[str], true: NDArray[np.int64], predicted: NDArray[np.int64]
) -> dict[str, Any]:
    """`labels`, `confusion` (a row per true label, a column per predicted one) and `per_class` figures."""
    size = len(names)
    confusion = np.bincount(true * size + predicted, minlength=size * size).reshape(size, size)
    counts = zip(names, confusion.diagonal(), confusion.sum(0), confusion.sum(1), strict=True)
    return {
        "labels": list(names),
        "per_class": [scores(name, *count) for name, *count in counts],
        "confusion": confusion.tolist(),
    }


def scores(label: str, correct: int, predicted: int, true: int) -> dict[str, Any]:
    """Precision, recall and F1 of one label; `support` is how often it is true."""
    return {
        "label": label,
        "precision": float(correct / max(predicted, 1)),
        "recall": float(correct / max(true, 1)),
        "f1": float(2 * correct / max(predicted + true, 1)),
        "support": int(true),
    }
