"""The base class of predictions for the places of a data set, and the metrics and tables that tasks share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchmetrics import Metric

from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.evaluation.files import Entry, PredictionRow
from tiryns.runner.evaluation.metrics import KINDS, OF_CLASSES, get_metrics_for_task

Gather = Callable[[Any], list[Any]]
"""Gathers an object of every rank on every rank."""

MakeMetric = Callable[[int], Metric]
"""Makes a metric, given the number of labels."""

S = TypeVar("S", bound=Sized)

MATRIX_LABELS = 2000
"""Most labels of a confusion matrix, as its memory grows with their square."""


class Compared(NamedTuple):
    """Items from which metrics of a kind are computed: texts, words, tags of sentences, answers."""

    kind: str
    predicted: Any
    true: Any
    owners: NDArray[np.int64] | None = None
    """The index of each item's example [M]; None if unknown."""
    only: Sequence[str] | None = None
    """The metrics of the kind to compute; None for all."""
    suffix: str = ""
    """The ending of the metrics' names."""
    num_labels: int | None = None
    """The number of labels; None for the number that the predictions have."""


class Predictions(ABC, Generic[S]):
    """Predictions for the places of a set: its examples, words or windows. Call `add`, then `join`, then other methods.

    After `join` every rank holds the predictions for the whole set and computes the same metrics as one process would.
    `registered` are further metrics by name, which `metrics` computes beside the task's own.
    """

    kind: ClassVar[str]
    """The kind of prediction, for which metrics are registered."""

    keeps_all = False
    """Whether values that only some metrics need are kept in any case."""

    label_sets: Callable[[int], PredictionRow] | None = None
    """Returns further entries for the row of a text or word, given its place, by a calibration on other examples."""

    monitor: str
    """The metric that chooses the best checkpoint."""

    def __init__(self, sequences: S) -> None:
        self.sequences = sequences
        self.registered: Mapping[str, MakeMetric] = {}
        self._parts: list[dict[str, NDArray[Any]]] = []
        self.values: dict[str, NDArray[Any]] = {}

    @abstractmethod
    def read(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns `places` [M], -1 for items that must not count, and the values [M, ...] predicted for them."""

    def size(self) -> int:
        """Returns the number of places of the set."""
        return len(self.sequences)

    def scored(self) -> tuple[Any, Any]:
        """Returns predictions and known truths for registered metrics; ValueError for a kind that takes none."""
        raise ValueError(f"{type(self).__name__} takes no registered metrics: it does not define `scored`")

    def compared(self) -> tuple[Any, Any]:
        """Returns predictions and known truths for the task's own metrics."""
        return self.scored()

    def owners(self) -> NDArray[np.int64] | None:
        """Returns the index of the example of each item of `compared` [M], for intervals; None if unknown."""
        return None

    def scored_owners(self) -> NDArray[np.int64] | None:
        """Returns the index of the example of each item of `scored`; None if unknown."""
        return self.owners()

    def parts(self) -> list[Compared]:
        """Returns the parts from which the task's own metrics are computed."""
        return [Compared(self.kind, *self.compared(), self.owners())]

    def means(self) -> dict[str, tuple[NDArray[np.float64], NDArray[np.int64]]]:
        """Returns the metrics that are means, by name: the scores of items [M] and their examples [M], for intervals."""
        return {}

    def measure(self) -> dict[str, float]:
        """Returns the task's own metrics; empty if the set has no labels."""
        metrics = metrics_of(self.parts(), self.num_labels())
        return metrics | self.combine(metrics)

    def measured_names(self) -> list[str]:
        """Returns the names of the metrics of `measure`, before any prediction; for a kind of your own only `monitor`."""
        return [*get_metrics_for_task(self.kind, 1)] if self.kind in KINDS else [self.monitor]

    def figure_names(self) -> list[str]:
        """Returns the names of `metrics`, `monitor` first; empty if unknown. ValueError if a registered name is taken."""
        names = self.measured_names()
        if taken := [name for name in self.registered if name in names]:
            raise ValueError(
                f"{self.kind} has a metric {taken[0]!r} already: register yours under another name"
            )
        return [*dict.fromkeys((self.monitor, *names, *self.registered))] if names else []

    def metrics(self) -> dict[str, float]:
        """Returns the task's metrics, and those registered for it; empty if the set has no labels."""
        metrics = self.measure()
        if metrics and self.registered:
            values = [as_tensor(one) for one in self.scored()]
            for name, make in self.registered.items():
                metrics[name] = compute(name, make(self.num_labels()), values)
        return metrics

    def losses(self, totals: Mapping[str, float]) -> dict[str, float]:
        """Returns the losses of a set from its sums, for a task with several losses; empty for a task with one loss."""
        return {}

    def combine(self, figures: Mapping[str, Any]) -> dict[str, Any]:
        """Returns metrics derived from other metrics, which are numbers, or arrays with a number per resample."""
        return {}

    def calibrate(self) -> None:
        """Chooses decision rules, such as thresholds, from these joined predictions for a validation set."""

    def num_labels(self) -> int:
        """Returns the number of labels; 1 for a task without labels."""
        return len(getattr(self.sequences, "names", ())) or 1

    @abstractmethod
    def rows(self) -> Iterator[PredictionRow]:
        """Yields a line of `predictions.jsonl` for each example."""

    def tables(self) -> Entry:
        """Returns further entries of `evaluation.json`; the report shows a list of rows as a table of that name."""
        return {}

    def files(self) -> dict[str, str]:
        """Returns further files of the run folder for this set: JSON by the stem of the file's name."""
        return {}

    def add(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> None:
        """Adds this rank's predictions for a micro-batch."""
        values = {name: value.cpu().numpy() for name, value in self.read(micro_batch, output).items()}
        counts = values["places"] >= 0
        self._parts.append({name: value[counts] for name, value in values.items()})

    def join(self, gather: Gather) -> None:
        """Joins the predictions of all ranks in `values`; `seen` marks the places with a prediction."""
        mine = {n: np.concatenate([part[n] for part in self._parts]) for n in (self._parts or [{}])[0]}
        self._parts = []
        self.seen = np.zeros(self.size(), dtype=bool)
        for rank in filter(None, gather(mine)):
            places = rank.pop("places")
            self.seen[places] = True
            for name, value in rank.items():
                whole = self.values.setdefault(name, np.zeros((self.size(), *value.shape[1:]), value.dtype))
                whole[places] = value


def metrics_of(parts: Iterable[Compared], num_labels: int) -> dict[str, float]:
    """Returns the metrics of all parts, computed by this process alone; a part without items has no metrics."""
    figures: dict[str, float] = {}
    for part in parts:
        values = as_tensor(part.predicted), as_tensor(part.true)
        size = part.num_labels or num_labels
        metrics = get_metrics_for_task(part.kind, size, sync_on_compute=False) if len(part.true) else {}
        for name, metric in metrics.items():
            if part.only is None or name in part.only:
                figures[f"{name}{part.suffix}"] = compute(name, metric, values)
    return figures


def compute(name: str, metric: Metric, values: Sequence[object]) -> float:
    """Returns a metric of values that every rank has. Raises ValueError unless it is one number."""
    metric.distributed_available_fn = lambda: False  # or it would ask the other ranks
    metric.update(*values)
    value = metric.compute()
    if torch.as_tensor(value).numel() != 1:
        raise ValueError(f"the metric {name!r} must be one number, not {value!r:.80}: average it")
    return float(value)


def as_tensor(values: object) -> Any:
    """Returns an array as a tensor, and a list of words unchanged."""
    return torch.from_numpy(np.ascontiguousarray(values)) if isinstance(values, np.ndarray) else values


def confusion_tables(names: Sequence[str], true: NDArray[np.int64], predicted: NDArray[np.int64]) -> Entry:
    """Returns `labels`, `per_class` metrics, and `confusion` (a row per true label, a column per predicted label).

    With more than `MATRIX_LABELS` labels, the 50 most frequent `confusions` replace `confusion`.
    """
    size = len(names)
    counts = [np.bincount(classes, minlength=size) for classes in (true[true == predicted], predicted, true)]
    tables = {"labels": list(names), "per_class": class_rows(names, *counts)}
    if size <= MATRIX_LABELS:
        confusion = np.bincount(true * size + predicted, minlength=size**2).reshape(size, size)
        return {**tables, "confusion": confusion.tolist()}
    wrong = true != predicted
    pairs, frequencies = np.unique(true[wrong] * size + predicted[wrong], return_counts=True)
    first = np.argsort(-frequencies, kind="stable")[:50]
    rows = [(*divmod(int(pairs[i]), size), int(frequencies[i])) for i in first]
    tables["confusions"] = [
        {"true": names[t], "as": names[p], "count": count, "share": count / int(counts[-1][t])}
        for t, p, count in rows
    ]
    return tables


def class_rows(names: Sequence[str], *counts: NDArray[np.int64]) -> list[dict[str, str | float]]:
    """Returns precision, recall, F1 and `support` of labels; `counts` has right predictions, predictions, true labels."""
    numbers = [torch.tensor(count, dtype=torch.float64) for count in counts]
    figures = [score(*numbers).tolist() for score in OF_CLASSES.values()]
    rows = zip(names, *figures, counts[-1].tolist(), strict=True)
    return [dict(zip(("label", *OF_CLASSES, "support"), row, strict=True)) for row in rows]
