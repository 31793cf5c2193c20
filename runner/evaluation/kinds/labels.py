"""Predictions for whole texts: a label, several labels above thresholds, or a number.

Letters in shapes: D examples, C labels.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tiryns.conf.objective.labelled import THRESHOLDS, check_thresholds
from tiryns.runner.data.labelled.classification import Labelled, LabelledSequences
from tiryns.runner.data.labelled.labels import by_label
from tiryns.runner.data.labelled.lists import ListSequences
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.evaluation.files import Entry, PredictionRow
from tiryns.runner.evaluation.predictions import Compared, Predictions, class_rows, confusion_tables

USUAL = 0.5
"""The default threshold of labels."""

L = TypeVar("L", LabelledSequences, ListSequences)


class OfLabels(Predictions[L]):
    """Predictions for examples with `labels`; a label that is NaN or below 0 is unknown."""

    def label_mask(self) -> NDArray[np.bool_]:
        """Returns whether each example has a prediction and a known label [D]."""
        labels = self.sequences.labels
        unknown = np.isnan(labels) if labels.dtype.kind == "f" else labels < 0
        return np.asarray(self.seen & ~unknown.any(axis=tuple(range(1, labels.ndim))))

    def read(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns the index of the label or choice with the highest score, and its probability."""
        probability, predictions = output["logits"].softmax(-1).max(-1)
        return {"places": micro_batch["samples"], "predicted": predictions, "probability": probability}

    def scored(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Returns the predictions for the examples with known labels, and these labels."""
        return self.of_known()

    def owners(self) -> NDArray[np.int64]:
        return np.flatnonzero(self.label_mask())

    def of_known(self, value: str = "predicted") -> tuple[NDArray[Any], NDArray[Any]]:
        """Returns a predicted value and the label of each example whose label is known."""
        mask = self.label_mask()
        return self.values[value][mask], self.sequences.labels[mask]


def _row(example: Labelled, gold: object, predicted: object, probability: object) -> PredictionRow:
    pair = {} if example.pair is None else {"pair": example.pair}
    entries = {"gold": gold, "predicted": predicted, "probability": probability}
    return {"id": example.id, "text": example.text, **pair, **entries}


class ClassificationPredictions(OfLabels[LabelledSequences]):
    """One label per example."""

    kind, monitor = "classification", "accuracy"

    def read(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns the most probable label and its probability; all probabilities too if metrics need them."""
        every = {"probabilities": output["logits"].softmax(-1)} if self.registered or self.keeps_all else {}
        return super().read(micro_batch, output) | every

    def scored(self) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Returns probabilities [D, C] and true class indices [D]."""
        return self.of_known("probabilities")

    def compared(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Returns predicted and true class indices [D]."""
        return self.of_known()

    def rows(self) -> Iterator[PredictionRow]:
        names = self.sequences.names
        for i in np.flatnonzero(self.seen).tolist():
            label, prediction = self.sequences.labels[i], names[self.values["predicted"][i]]
            probability = round(float(self.values["probability"][i]), 6)
            row = _row(
                self.sequences.examples[i], names[label] if label >= 0 else None, prediction, probability
            )
            yield row | (self.label_sets(i) if self.label_sets else {})

    def tables(self) -> Entry:
        predictions, true = self.compared()
        return confusion_tables(self.sequences.names, true, predictions)


class Thresholds:
    """The threshold of each label: given, or chosen by the highest F1 on examples whose labels are known.

    `setting` is None (0.5), a number, a mapping or list of numbers, or a mode of `choose`: `global` or `per_label`.

    Example:
        >>> thresholds = Thresholds("per_label", ["a", "b"])
        >>> probabilities = np.array([[0.2, 0.9], [0.3, 0.6], [0.1, 0.7]])
        >>> thresholds.choose(probabilities, np.array([[0, 1], [1, 0], [0, 1]], dtype=bool))
        >>> thresholds.values.round(3).tolist()
        [0.25, 0.65]
        >>> thresholds.settings()["thresholds"].keys()
        dict_keys(['a', 'b'])
    """

    def __init__(self, setting: object, labels: Sequence[str], several: bool = True) -> None:
        """Raises ValueError if `setting` is invalid, or if it is set for examples with one label each (not `several`)."""
        check_thresholds(setting)
        if setting is not None and not several:
            raise ValueError(
                f"objective.thresholds={setting!r} is for texts with several labels at once, but here a "
                "text has one label or a number: leave it out"
            )
        self.labels, self._is_given = list(labels), setting is not None
        self.mode = setting if setting in THRESHOLDS else None
        """How `choose` chooses thresholds; None if it does not."""
        self.chosen = False
        self.values: NDArray[np.float64] = np.array(USUAL)
        """[C], or one number for all labels."""
        if isinstance(setting, Mapping | list):
            setting = by_label("thresholds", setting, self.labels, USUAL)
        if setting is not None and self.mode is None:
            self.values = np.array(setting, dtype=np.float64)

    def choose(self, probabilities: NDArray[np.floating], true: NDArray[np.bool_]) -> None:
        """Chooses the thresholds by probabilities [D, C] and true labels, bool [D, C], if there is a mode."""
        if self.mode == "global":
            self.values = np.array(best_threshold(probabilities.reshape(-1), true.reshape(-1)))
        elif self.mode == "per_label":
            columns = zip(probabilities.T, true.T, strict=True)
            self.values = np.array([best_threshold(*column) for column in columns])
        self.chosen = self.mode is not None

    def settings(self) -> dict[str, object]:
        """Returns the objective's setting that gives these thresholds again; empty for the default."""
        if not self._is_given:
            return {}
        if self.mode and not self.chosen:
            return {"thresholds": self.mode}
        if self.values.ndim == 0:
            return {"thresholds": float(self.values)}
        values = self.values.tolist()
        return {"thresholds": dict(zip(self.labels, values, strict=True)) if self.labels else values}


def best_threshold(probabilities: NDArray[np.floating], true: NDArray[np.bool_]) -> float:
    """Returns the threshold with the highest F1 for probabilities [M] and truth, bool [M]; on ties the nearest to 0.5.

    A threshold between two probabilities is 0.5 if 0.5 lies between them, else their mean. It is 0.5 if nothing is true,
    or if all probabilities are 0.

    Example:
        >>> best_threshold(np.array([0.9, 0.8, 0.3, 0.2]), np.array([True, False, True, False]))
        0.25
    """
    if not true.any():
        return USUAL
    order = np.argsort(-probabilities, kind="stable")
    scores, hits = probabilities[order].astype(np.float64), true[order].cumsum()
    lower = np.append(scores[1:], 0.0)  # a cut behind place i predicts what lies above the next probability
    cuts = np.flatnonzero(scores > lower)
    if not len(cuts):
        return USUAL
    f1 = 2 * hits[cuts] / (cuts + 1 + hits[-1])
    best = cuts[f1 == f1.max()]
    middle = (scores[best] + lower[best]) / 2
    values = np.where((lower[best] <= USUAL) & (scores[best] > USUAL), USUAL, middle)
    return float(values[np.abs(values - USUAL).argmin()])


class LabelPredictions(OfLabels[LabelledSequences]):
    """Any number of labels per example, each above its threshold, which is 0.5 by default."""

    kind, monitor = "multi_label", "micro_f1"

    def __init__(self, sequences: LabelledSequences, thresholds: Thresholds | None = None) -> None:
        super().__init__(sequences)
        self.thresholds = thresholds or Thresholds(None, ())

    def calibrate(self) -> None:
        """Chooses the thresholds, if they have a mode."""
        probability, labels = self.of_known("probability")
        if len(labels):
            self.thresholds.choose(probability, labels > 0.5)

    def read(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {"places": micro_batch["samples"], "probability": output["logits"].sigmoid()}

    def scored(self) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Returns probabilities [D, C], and labels [D, C]: 1 if true, else 0."""
        probability, labels = self.of_known("probability")
        return probability, (labels > 0.5).astype(np.int64)

    def compared(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Returns whether each label is predicted, and whether it is true, bool [D, C]."""
        probability, labels = self.of_known("probability")
        return np.asarray(probability > self.thresholds.values), labels > 0.5

    def rows(self) -> Iterator[PredictionRow]:
        """Yields rows with the predicted labels. A row without any has the entry `none`: 1 - the largest probability."""
        names, mask = self.sequences.names, self.label_mask()
        for i in np.flatnonzero(self.seen).tolist():
            probability, labels = self.values["probability"][i], self.sequences.labels[i]
            indices = np.flatnonzero(probability > self.thresholds.values)
            gold = [names[c] for c in np.flatnonzero(labels > 0.5)] if mask[i] else None
            scores = [round(float(probability[c]), 6) for c in indices]
            none = {} if len(indices) else {"none": round(1 - float(probability.max()), 6)}
            yield {**_row(self.sequences.examples[i], gold, [names[c] for c in indices], scores), **none}

    def tables(self) -> Entry:
        """Returns the metrics of each label, with the thresholds if they are not the default."""
        predictions, true = self.compared()
        counts = (true & predictions).sum(0), predictions.sum(0), true.sum(0)
        rows = class_rows(self.sequences.names, *counts)
        if self.thresholds.settings():
            values = np.broadcast_to(self.thresholds.values, len(rows)).tolist()
            rows = [{**row, "threshold": value} for row, value in zip(rows, values, strict=True)]
        return {"per_class": rows}


class NumberPredictions(OfLabels[LabelledSequences]):
    """A number per example."""

    kind, monitor = "regression", "spearman"

    def read(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {"places": micro_batch["samples"], "predicted": output["logits"][:, 0]}

    def scored(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns predicted and true numbers [D], float64."""
        predictions, true = self.of_known()
        return predictions.astype(np.float64), true.astype(np.float64)

    def parts(self) -> list[Compared]:
        """Returns a part of the kind `regression`, also for a subclass that has another kind."""
        return [Compared("regression", *self.scored(), self.owners())]

    def rows(self) -> Iterator[PredictionRow]:
        """Yields rows with numbers and no probability."""
        for i in np.flatnonzero(self.seen).tolist():
            gold, prediction = float(self.sequences.labels[i]), float(self.values["predicted"][i])
            yield _row(self.sequences.examples[i], None if np.isnan(gold) else gold, prediction, None)
