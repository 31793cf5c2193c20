"""The calibration of one set, with a temperature and sets of classes that another set has fitted."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from tiryns.runner.evaluation.calibration.figures import (
    LEVEL,
    SMALLEST,
    Classes,
    Numbers,
    calibration_error,
    fitted_temperature,
    in_set,
    set_threshold,
    with_temperature,
)
from tiryns.runner.evaluation.files import Entry, PredictionRow
from tiryns.runner.evaluation.predictions import Predictions
from tiryns.runner.evaluation.statistics.intervals import Weights, bootstrap

PROBABILITIES = "probabilities"

LABEL_SET, CALIBRATED = "label_set", "calibrated_probability"
"""Keys of a row of `predictions.jsonl`: the labels of a set by falling probability, and the predicted label's one."""


class Fitted(NamedTuple):
    """What a validation set has fitted."""

    set: str
    examples: int
    temperature: float
    threshold: float
    """The least calibrated probability of a class in a set."""


def scored(predictions: Predictions) -> tuple[Numbers, Classes]:
    """Probabilities and true classes, where these are known; ValueError for predictions that are not one of classes."""
    if PROBABILITIES not in predictions.values:
        raise ValueError(
            f"calibration is for one label of several, and this model predicts {predictions.kind}"
        )
    probabilities, true = predictions.scored()
    return probabilities.astype(np.float64), true


def fitted(name: str, predictions: Predictions) -> Fitted:
    """What the set `name` fits."""
    probabilities, true = scored(predictions)
    temperature = fitted_temperature(probabilities, true)
    threshold = set_threshold(with_temperature(probabilities, temperature), true)
    return Fitted(name, len(true), temperature, threshold)


def calibration(predictions: Predictions, fit: Fitted, resamples: int, seed: int) -> Entry:
    """The `calibration` of a set in `evaluation.json`: figures, each with its interval where there are resamples.

    Resamples are of examples: the words of a sentence are drawn together.
    """
    probabilities, true = scored(predictions)
    owners = predictions.scored_owners()
    examples, owners = np.unique(np.arange(len(true)) if owners is None else owners, return_inverse=True)
    calibrated = with_temperature(probabilities, fit.temperature)
    sets, places = in_set(calibrated, fit.threshold), np.arange(len(true))
    means = {
        "loss": -np.log(np.maximum(probabilities[places, true], SMALLEST)),
        "calibrated_loss": -np.log(np.maximum(calibrated[places, true], SMALLEST)),
        "coverage": sets[places, true].astype(np.float64),
        "set_size": sets.sum(1).astype(np.float64),
    }
    errors = {"error": probabilities, "calibrated_error": calibrated}

    def figures(weights: Weights) -> dict[str, Numbers]:
        mean = {name: weights @ values / weights.sum(1) for name, values in means.items()}
        return {name: calibration_error(given, true, weights) for name, given in errors.items()} | mean

    ends = partial(bootstrap, lambda weights: figures(weights[:, owners]), len(examples), seed=seed)
    found: Entry = {name: float(value[0]) for name, value in figures(np.ones((1, len(true)))).items()}
    found["intervals"] = (
        {name: both.tolist() for name, both in ends(resamples=resamples).items()} if resamples else {}
    )
    return {**found, "level": LEVEL, "fitted_on": fit._asdict()}


def label_sets(predictions: Predictions, fit: Fitted) -> Callable[[int], PredictionRow]:
    """Returns what the row of each place has: its set of labels, and the calibrated probability of its predicted one.

    A word that was cut off has no set, and the probability 0.
    """
    calibrated = with_temperature(predictions.values[PROBABILITIES].astype(np.float64), fit.temperature)
    sets, names = in_set(calibrated, fit.threshold), predictions.sequences.names

    def of_place(place: int) -> PredictionRow:
        if not predictions.seen[place]:
            return {LABEL_SET: None, CALIBRATED: 0.0}
        probabilities = calibrated[place]
        labels = sorted(np.flatnonzero(sets[place]), key=lambda label: -probabilities[label])
        predicted = probabilities[predictions.values["predicted"][place]]
        return {LABEL_SET: [names[label] for label in labels], CALIBRATED: round(float(predicted), 6)}

    return of_place
