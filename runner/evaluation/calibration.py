"""Calibrates class probabilities: the calibration error, a temperature, and sets of classes meant to hold the true one.

Letters in shapes: D examples, C classes, R resamples.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.evaluation.files import Entry, PredictionRow
from tiryns.runner.evaluation.predictions import Predictions
from tiryns.runner.evaluation.statistics.intervals import Weights, bootstrap

Numbers = NDArray[np.float64]
Classes = NDArray[np.int64]

BINS = 15
"""Bins of confidence, as in Guo and others (arXiv 1706.04599)."""

LEVEL = 0.9
"""The share of examples whose set is meant to hold their true class."""

SMALLEST = 1e-12
"""Lower bound of probabilities before a logarithm."""

PROBABILITIES = "probabilities"


def calibration_error(probabilities: Numbers, true: Classes, weights: Weights | None = None) -> Numbers:
    """Returns the expected calibration error per row of `weights` [R, D]; without weights one error for all examples [1].

    Examples are put into 15 bins by the probability of the predicted class. The error is the mean over the examples of
    |accuracy - mean confidence| of their bin (arXiv 1706.04599, equation 3).
    """
    confidence = probabilities.max(1)
    off = (probabilities.argmax(1) == true) - confidence
    bins = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    weights = np.ones((1, len(true))) if weights is None else weights
    sums = np.stack([(weights[:, bins == number] @ off[bins == number]) for number in range(BINS)], 1)
    return np.asarray(np.abs(sums).sum(1) / weights.sum(1))


def with_temperature(probabilities: Numbers, temperature: float) -> Numbers:
    """Returns probabilities after dividing their logits by a temperature; above 1 it makes them less certain.

    Example:
        >>> with_temperature(np.array([[0.8, 0.2]]), 2.0).round(3).tolist()
        [[0.667, 0.333]]
    """
    logits = np.log(np.maximum(probabilities, SMALLEST)) / temperature
    exponentials = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(1, keepdims=True))


def fitted_temperature(probabilities: Numbers, true: Classes) -> float:
    """Returns the temperature T, 0.01 to 100, with the least mean cross-entropy, by bisection: the loss is convex in 1/T.

    Example:
        >>> round(fitted_temperature(np.array([[0.9, 0.1]] * 4), np.array([0, 0, 0, 1])), 3)
        2.0
    """
    logs = np.log(np.maximum(probabilities, SMALLEST))
    logs_of_true = logs[np.arange(len(true)), true]
    low, high = 0.01, 100.0  # of 1/T
    while high / low > 1 + 1e-12:
        middle = math.sqrt(low * high)
        slope = ((with_temperature(probabilities, 1 / middle) * logs).sum(1) - logs_of_true).mean()
        low, high = (low, middle) if slope > 0 else (middle, high)
    return 1 / math.sqrt(low * high)


def set_threshold(probabilities: Numbers, true: Classes) -> float:
    """Returns the least probability at which a class is in a set, chosen on examples that are not in the training data.

    The set of a new example from the same distribution then has the true class with a probability of at least `LEVEL`
    (split conformal prediction, arXiv 2107.07511, section 1). Returns 0 (all classes) if there are too few examples.

    Example:
        >>> round(set_threshold(np.array([[0.9, 0.1]] * 9 + [[0.6, 0.4]]), np.zeros(10, int)), 3)
        0.6
    """
    of_true = np.sort(probabilities[np.arange(len(true)), true])
    position = len(true) - math.ceil((len(true) + 1) * LEVEL)
    return float(of_true[position]) if position >= 0 else 0.0


def in_set(probabilities: Numbers, threshold: float) -> NDArray[np.bool_]:
    """Returns which classes are in the set of each example [D, C]; the most probable class always is.

    Example:
        >>> in_set(np.array([[0.5, 0.4, 0.1]]), 0.4).tolist()
        [[True, True, False]]
    """
    return np.asarray(probabilities >= np.minimum(threshold, probabilities.max(1, keepdims=True)))


class Fitted(NamedTuple):
    """The calibration that is fitted on a validation set."""

    set: str
    examples: int
    temperature: float
    threshold: float
    """A class is in a set if its calibrated probability is at least this threshold."""


def class_probabilities(predictions: Predictions) -> tuple[Numbers, Classes]:
    """Returns probabilities and true classes of examples with a known class; ValueError if there are no probabilities."""
    if PROBABILITIES not in predictions.values:
        raise ValueError(
            f"calibration is for one label of several, but this model predicts {predictions.kind}"
        )
    probabilities, true = predictions.scored()
    return probabilities.astype(np.float64), true


def fit_calibration(name: str, predictions: Predictions) -> Fitted:
    """Returns the calibration that is fitted on the predictions for the set `name`."""
    probabilities, true = class_probabilities(predictions)
    temperature = fitted_temperature(probabilities, true)
    threshold = set_threshold(with_temperature(probabilities, temperature), true)
    return Fitted(name, len(true), temperature, threshold)


def calibration(predictions: Predictions, fit: Fitted, resamples: int, seed: int) -> Entry:
    """Returns the `calibration` of a set in `evaluation.json`: metrics, and their intervals if `resamples` is not 0.

    Examples are resampled, so the words of a sentence are drawn together.
    """
    probabilities, true = class_probabilities(predictions)
    owners = predictions.scored_owners()
    examples, owners = np.unique(np.arange(len(true)) if owners is None else owners, return_inverse=True)
    calibrated_probs = with_temperature(probabilities, fit.temperature)
    sets, places = in_set(calibrated_probs, fit.threshold), np.arange(len(true))
    means = {
        "loss": -np.log(np.maximum(probabilities[places, true], SMALLEST)),
        "calibrated_loss": -np.log(np.maximum(calibrated_probs[places, true], SMALLEST)),
        "coverage": sets[places, true].astype(np.float64),
        "set_size": sets.sum(1).astype(np.float64),
    }
    errors = {"error": probabilities, "calibrated_error": calibrated_probs}

    def figures(weights: Weights) -> dict[str, Numbers]:
        mean = {name: weights @ values / weights.sum(1) for name, values in means.items()}
        return {name: calibration_error(probs, true, weights) for name, probs in errors.items()} | mean

    metrics: Entry = {name: float(value[0]) for name, value in figures(np.ones((1, len(true)))).items()}
    metrics["intervals"] = {}
    if resamples:
        ends = bootstrap(lambda weights: figures(weights[:, owners]), len(examples), resamples, seed)
        metrics["intervals"] = {name: both.tolist() for name, both in ends.items()}
    return {**metrics, "level": LEVEL, "fitted_on": fit._asdict()}


def label_sets(predictions: Predictions, fit: Fitted) -> Callable[[int], PredictionRow]:
    """Returns a function from the index of a text or word to its set of labels and its predicted label's probability.

    The probability is calibrated. A word that was cut off has the set None and the probability 0.
    """
    calibrated_probs = with_temperature(predictions.values[PROBABILITIES].astype(np.float64), fit.temperature)
    sets, names = in_set(calibrated_probs, fit.threshold), predictions.sequences.names

    def of_place(place: int) -> PredictionRow:
        if not predictions.seen[place]:
            return {"label_set": None, "calibrated_probability": 0.0}
        probabilities = calibrated_probs[place]
        labels = sorted(np.flatnonzero(sets[place]), key=lambda label: -probabilities[label])
        probability = probabilities[predictions.values["predicted"][place]]
        return {
            "label_set": [names[label] for label in labels],
            "calibrated_probability": round(float(probability), 6),
        }

    return of_place
