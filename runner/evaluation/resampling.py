"""Intervals of the metrics of predictions, by a bootstrap over examples: texts, sentences or questions.

A metric is computed from items (texts, words, tags of sentences, answers), each weighted by how often its example was
drawn. A registered metric, which takes no weights, is computed from the drawn items, one resample after another.
Letters in shapes: R resamples, D examples, M items, C classes.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial, singledispatch
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torchmetrics import Metric
from torchmetrics.regression import MeanSquaredError, PearsonCorrCoef, SpearmanCorrCoef

from tiryns.runner.evaluation import metrics
from tiryns.runner.evaluation.predictions import Compared, Predictions, as_tensor, compute
from tiryns.runner.evaluation.statistics.intervals import Statistic, Weights, bootstrap, each

Numbers = NDArray[np.float64]
Owners = NDArray[np.int64]
"""The index of the example of each item [M]."""

Weighted = Callable[[Weights], Numbers]
"""A function from the weights of examples [R, D] to a metric [R], or to a metric of each class [R, C]."""

TABLE = 1 << 24
"""Most entries of a table of examples by classes."""


def counts(marks: metrics.Marks, weights: Weights, owners: Owners, num_classes: int) -> Numbers:
    """Returns how often each class occurs in each resample [R, C]."""
    items, classes = (part.numpy() for part in marks)
    places, (resamples, examples) = owners[items], weights.shape
    if examples * num_classes <= TABLE:
        table = np.bincount(places * num_classes + classes, minlength=examples * num_classes)
        return weights @ table.reshape(examples, num_classes).astype(np.float64)
    rows = [np.bincount(classes, row[places], num_classes) for row in weights]
    return np.array(rows, dtype=np.float64).reshape(resamples, num_classes)


def intervals(
    predictions: Predictions, sums: Mapping[str, Numbers], resamples: int, seed: int
) -> dict[str, Numbers]:
    """Returns the interval of each metric by name [2], and of each metric of classes, such as `per_class/f1` [C, 2].

    Returns an empty dict if `weighted_figures` returns None.
    """
    statistic = weighted_figures(predictions, sums)
    return bootstrap(*statistic, resamples, seed) if statistic else {}


def weighted_figures(predictions: Predictions, sums: Mapping[str, Numbers]) -> tuple[Statistic, int] | None:
    """Returns a function from the weights of examples to metrics, and the number of these examples.

    `sums` has the `loss`, `weight` and `correct` of each example, if known, and such sums for parts of the loss. An
    example with a weight counts. Returns None if no example is known, or if predictions do not state an item's example.
    """
    parts, means = predictions.parts(), predictions.means()
    part_owners = [part.owners for part in parts if part.owners is not None]
    weighing = [np.flatnonzero(sums["weight"])] if sums else []
    every = [*part_owners, *(owners for _, owners in means.values()), *weighing]
    if len(part_owners) < len(parts) or not every or not len(examples := np.unique(np.concatenate(every))):
        return None
    functions: dict[str, Weighted] = {}
    for part, owners in zip(parts, (np.searchsorted(examples, one) for one in part_owners), strict=True):
        if len(part.true):
            functions |= _figures(part, predictions, owners)
    for name, (scores, owners) in means.items():
        functions[name] = mean_of(scores, np.searchsorted(examples, owners))
    places = predictions.scored_owners()
    for name, make in predictions.registered.items():
        assert places is not None  # as those of the parts are
        metric = make(predictions.num_labels())
        functions[name] = weigh(metric, *predictions.scored(), np.searchsorted(examples, places))
    for name, of in (("loss", "loss"), ("token_accuracy", "correct")):
        if of in sums:
            functions[name] = partial(_per_weight, sums[of][examples], sums["weight"][examples])
    of_parts = {name: values[examples] for name, values in sums.items() if "/" in name}

    def figures(weights: Weights) -> dict[str, Numbers]:
        values = {name: figure(weights) for name, figure in functions.items()}
        return values | predictions.combine(values) | (each(weights, losses) if whole else {})

    whole = predictions.losses({name: float(values.sum()) for name, values in of_parts.items()})

    def losses(row: NDArray[np.float64]) -> dict[str, float]:
        row_losses = predictions.losses({name: float(row @ values) for name, values in of_parts.items()})
        # No number where no target of some part was drawn
        return row_losses if row_losses.keys() == whole.keys() else dict.fromkeys(whole, np.nan)

    return figures, len(examples)


def _figures(part: Compared, predictions: Predictions, owners: Owners) -> dict[str, Weighted]:
    """Returns the metrics of a part, and the metrics of its classes, for weighted examples."""
    size = part.num_labels or predictions.num_labels()
    by_name = metrics.get_metrics_for_task(part.kind, size, sync_on_compute=False)
    figures: dict[str, Weighted] = {
        f"{name}{part.suffix}": weigh(metric, part.predicted, part.true, owners)
        for name, metric in by_name.items()
        if part.only is None or name in part.only
    }
    table, both = "per_class", (as_tensor(part.predicted), as_tensor(part.true))
    if part.only == metrics.ENTITY_FIGURES:
        types, all_marks = metrics.entities_by_type(*both)
        table, size = "entities", len(types)
    elif "macro_f1" in by_name or part.kind == "token_classification":
        metric: Any = by_name["macro_f1" if "macro_f1" in by_name else "accuracy"]
        all_marks = metric.marks(*both)
    else:
        return figures
    for name, score in metrics.OF_CLASSES.items():
        figures[f"{table}{part.suffix}/{name}"] = partial(_by_counts, score, all_marks, owners, size)
    return figures


def _by_counts(
    score: metrics.Score, groups: Sequence[metrics.Marks], owners: Owners, num_classes: int, weights: Weights
) -> Numbers:
    """Returns the score of each resample [R], or of each class in it [R, C], computed from the counts of classes."""
    return score(*(torch.from_numpy(counts(marks, weights, owners, num_classes)) for marks in groups)).numpy()


@singledispatch
def weigh(metric: Metric, predicted: Any, true: Any, owners: Owners) -> Weighted:
    """Returns the metric as a function of the examples' weights; an unknown metric is computed from the drawn items."""

    def figure(weights: NDArray[np.float64]) -> dict[str, float]:
        places = np.repeat(np.arange(len(owners)), weights[owners].astype(np.int64))
        metric.reset()
        items = [
            as_tensor(all_of[places] if isinstance(all_of, np.ndarray) else [all_of[i] for i in places])
            for all_of in (predicted, true)
        ]
        return {"figure": compute("the metric", metric, items)}

    return lambda weights: each(weights, figure)["figure"]


@weigh.register
def _(metric: metrics.CountedScore, predicted: Any, true: Any, owners: Owners) -> Weighted:
    """Returns the function, which computes the score from the weighted counts of each class."""
    all_marks, score = metric.marks(as_tensor(predicted), as_tensor(true)), metric.measures[metric.measure]

    def by_resample(*of_classes: torch.Tensor) -> torch.Tensor:
        return torch.stack([score(*row) for row in zip(*of_classes, strict=True)])

    return partial(_by_counts, by_resample, all_marks, owners, len(metric.true))


@weigh.register
def _(metric: metrics.MeanOverQuestions, predicted: Any, true: Any, owners: Owners) -> Weighted:
    """Returns the function, a weighted mean of the scores of questions."""
    return mean_of(np.array([metric.score(*both) for both in zip(predicted, true, strict=True)]), owners)


@weigh.register
def _(metric: MeanSquaredError, predicted: Numbers, true: Numbers, owners: Owners) -> Weighted:
    """Returns the function, a weighted mean of the squared errors."""
    return mean_of((predicted - true) ** 2, owners)


@weigh.register
def _(metric: PearsonCorrCoef, predicted: Numbers, true: Numbers, owners: Owners) -> Weighted:
    """Returns the function, Pearson's correlation of weighted numbers."""
    x, y = predicted - predicted.mean(), true - true.mean()
    return lambda weights: correlation(weights[:, owners], x, y)


@weigh.register
def _(metric: SpearmanCorrCoef, predicted: Numbers, true: Numbers, owners: Owners) -> Weighted:
    """Returns Pearson's correlation of the ranks in each resample; equal numbers share the mean of their ranks."""

    def figure(weights: Weights) -> Numbers:
        of_items = weights[:, owners]
        return correlation(of_items, ranks(of_items, predicted), ranks(of_items, true))

    return figure


def _per_weight(sums: Numbers, weight: Numbers, weights: Weights) -> Numbers:
    """Returns the weighted sum of `sums`, divided by the weighted sum of `weight` [R]."""
    return (weights @ sums) / np.maximum(weights @ weight, 1e-12)


def mean_of(values: Numbers, owners: Owners) -> Weighted:
    """Returns the weighted mean of the items; NaN if no item was drawn."""

    def figure(weights: Weights) -> Numbers:
        sums = np.bincount(owners, values, weights.shape[1])
        total = weights @ np.bincount(owners, minlength=weights.shape[1])
        return np.where(total > 0, weights @ sums / np.maximum(total, 1), np.nan)

    return figure


def correlation(weights: Weights, x: Numbers, y: Numbers) -> Numbers:
    """Returns Pearson's correlation [R] of numbers [R, M] or [M] with weights [R, M]; NaN where a side is constant."""
    total = weights.sum(1, keepdims=True)
    dx = x - (weights * x).sum(1, keepdims=True) / total
    dy = y - (weights * y).sum(1, keepdims=True) / total
    both, xx, yy = ((weights * product).sum(1) for product in (dx * dy, dx * dx, dy * dy))
    varies = (xx > 1e-20 * (weights * x * x).sum(1)) & (yy > 1e-20 * (weights * y * y).sum(1))
    return np.where(varies, both / np.sqrt(np.where(varies, xx * yy, 1)), np.nan)


def ranks(weights: Weights, values: Numbers) -> Numbers:
    """Returns the rank [R, M] of each item among those drawn, from 1; equal numbers have the mean of their ranks."""
    distinct, group = np.unique(values, return_inverse=True)
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(len(distinct)))
    group_weights = np.add.reduceat(weights[:, order], starts, axis=1)
    first = np.cumsum(group_weights, axis=1) - group_weights
    return (first + (group_weights + 1) / 2)[:, group]
