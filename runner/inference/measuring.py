"""Measures what a model predicts for a set, as a run tests its model."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.data.evaluated import EVALUATED_AT_ONCE
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.evaluation.predictions import Predictions
from tiryns.runner.evaluation.totals import LabelledSet, Totals, mean_loss
from tiryns.runner.inference.passes import Computation, Report, RowSums, device_here, passes


class Measured(NamedTuple):
    """Predictions for a set, and its figures."""

    predictions: Predictions
    figures: dict[str, float]
    """The loss and the metrics, as of a run's test; none without labels."""
    sums: dict[str, NDArray[np.float64]]
    """The `loss`, the `weight` and the `correct` targets of each example [E], where the model tells them apart."""


def measure_set(
    predictions: Predictions,
    model: Any,
    collator: Any,
    computation: Computation,
    report: Report | None = None,
    output: Callable[[MicroBatch], Mapping[str, Any]] | None = None,
    of_sums: Callable[[Totals], Totals] = mean_loss,
    calibrating: bool = False,
) -> Measured:
    """The `predictions` for their set, filled, and its figures; `output` is the model's for a micro-batch, and more.

    With `calibrating` the task chooses by this set what decides in others, such as thresholds.
    """
    sequences = predictions.sequences
    evaluated = LabelledSet(predictions, device_here(), calibrating)
    apart = RowSums(sequences.owners(), len(sequences.examples))
    model.by_row = True
    for passed in passes(output or model, collator, sequences, computation, 0, EVALUATED_AT_ONCE, report):
        evaluated.add(passed.micro_batch, passed.output)
        apart.add(passed)
    figures = evaluated.finish(lambda mine: [mine], lambda sums: sums, of_sums)
    return Measured(evaluated.predictions, figures, apart.sums)
