"""Figures of probabilities [D, C] and true classes [D]; D examples, C classes, R resamples, B bins."""

import math

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.evaluation.statistics.intervals import Weights

Numbers = NDArray[np.float64]
Classes = NDArray[np.int64]

BINS = 15
"""Bins of confidence, as in Guo and others (arXiv 1706.04599)."""

LEVEL = 0.9
"""The share of examples whose true class is to be in their set."""

SMALLEST = 1e-12
"""The least probability that a logarithm is taken of."""


def calibration_error(probabilities: Numbers, true: Classes, weights: Weights | None = None) -> Numbers:
    """The expected calibration error of each row of `weights` [R, D]; without them that of the examples as they are [1].

    Examples are put into 15 bins by the probability of the predicted class. The error is the mean over the examples of
    |accuracy - mean confidence| of their bin (arXiv 1706.04599, equation 3).

    Example:
        >>> calibration_error(np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([0, 1])).round(3).tolist()
        [0.4]
    """
    confidence = probabilities.max(1)
    off = (probabilities.argmax(1) == true) - confidence
    bins = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    weights = np.ones((1, len(true))) if weights is None else weights
    sums = np.stack([(weights[:, bins == number] @ off[bins == number]) for number in range(BINS)], 1)
    return np.asarray(np.abs(sums).sum(1) / weights.sum(1))


def with_temperature(probabilities: Numbers, temperature: float) -> Numbers:
    """The softmax of the logits divided by a temperature: above 1 it is less sure.

    Example:
        >>> with_temperature(np.array([[0.8, 0.2]]), 2.0).round(3).tolist()
        [[0.667, 0.333]]
    """
    scaled = np.log(np.maximum(probabilities, SMALLEST)) / temperature
    raised = np.exp(scaled - scaled.max(1, keepdims=True))
    return np.asarray(raised / raised.sum(1, keepdims=True))


def fitted_temperature(probabilities: Numbers, true: Classes) -> float:
    """The temperature with the least mean cross-entropy, from 0.01 to 100, found by bisection: the loss is convex in 1/T.

    Example:
        >>> round(fitted_temperature(np.array([[0.9, 0.1]] * 4), np.array([0, 0, 0, 1])), 3)
        2.0
    """
    logs = np.log(np.maximum(probabilities, SMALLEST))
    chosen = logs[np.arange(len(true)), true]
    low, high = 0.01, 100.0  # of 1/T
    while high / low > 1 + 1e-12:
        middle = math.sqrt(low * high)
        slope = ((with_temperature(probabilities, 1 / middle) * logs).sum(1) - chosen).mean()
        low, high = (low, middle) if slope > 0 else (middle, high)
    return 1 / math.sqrt(low * high)


def set_threshold(probabilities: Numbers, true: Classes, level: float = LEVEL) -> float:
    """The least probability of a class in a set, from examples that the model was not trained on.

    With it the set of a new example of the same kind holds the true class with probability `level` at least (split
    conformal prediction, arXiv 2107.07511, section 1). It is 0, all classes, where there are too few examples.

    Example:
        >>> round(set_threshold(np.array([[0.9, 0.1]] * 9 + [[0.6, 0.4]]), np.zeros(10, int), 0.9), 3)
        0.6
    """
    of_true = np.sort(probabilities[np.arange(len(true)), true])
    dropped = len(true) - math.ceil((len(true) + 1) * level)
    return float(of_true[dropped]) if dropped >= 0 else 0.0


def in_set(probabilities: Numbers, threshold: float) -> NDArray[np.bool_]:
    """Which classes are in the set of each example [D, C]; the most probable one always is.

    Example:
        >>> in_set(np.array([[0.5, 0.4, 0.1]]), 0.4).tolist()
        [[True, True, False]]
    """
    return np.asarray(probabilities >= np.minimum(threshold, probabilities.max(1, keepdims=True)))
