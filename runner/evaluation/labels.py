"""Predictions for whole texts: a label, several labels, or a number."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from iolaus.runner.data.micro_batch import MicroBatch
from iolaus.runner.evaluation.predictions import Compared, Predictions, confusion_tables, scores


class ClassificationPredictions(Predictions):
    """One label per example."""

    kind, monitor = "classification", "accuracy"

    def read(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The most probable label and its probability; for registered metrics also those of the others."""
        probabilities = output["logits"].softmax(-1)
        probability, predicted = probabilities.max(-1)
        every = {"probabilities": probabilities} if self.registered else {}
        return {"places": micro_batch["samples"], "predicted": predicted, "probability": probability, **every}

    def scored(self) -> tuple[Any, Any]:
        """Probabilities [D, C], and class numbers [D]."""
        return self._of_known("probabilities")

    def compared(self) -> tuple[Any, Any]:
        """Class numbers [D]."""
        return self._of_known("predicted")

    def owners(self) -> NDArray[np.int64]:
        """The examples whose labels are known."""
        return np.flatnonzero(self._known())

    def _of_known(self, value: str) -> tuple[Any, Any]:
        known = self._known()
        return self.values[value][known], self.sequences.labels[known]

    def _known(self) -> NDArray[np.bool_]:
        return np.asarray(self.seen & (self.sequences.labels >= 0))

    def rows(self) -> Iterator[dict[str, Any]]:
        """Label names."""
        names = self.sequences.names
        for i in np.flatnonzero(self.seen):
            label, predicted = self.sequences.labels[i], names[self.values["predicted"][i]]
            gold, probability = names[label] if label >= 0 else None, float(self.values["probability"][i])
            yield _row(self.sequences.examples[i], gold, predicted, round(probability, 6))

    def tables(self) -> dict[str, Any]:
        """Per-class figures and the confusion matrix."""
        predicted, true = self.compared()
        return confusion_tables(self.sequences.names, true, predicted)


class LabelPredictions(Predictions):
    """Any number of labels per example."""

    kind, monitor = "multi_label", "micro_f1"

    def read(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The probability of every label."""
        return {"places": micro_batch["samples"], "probability": output["logits"].sigmoid()}

    def scored(self) -> tuple[Any, Any]:
        """Probabilities [D, C], and 1 for the labels that hold, else 0 [D, C]."""
        known = self._known()
        return self.values["probability"][known], (self.sequences.labels[known] > 0.5).astype(np.int64)

    def compared(self) -> tuple[Any, Any]:
        """Whether each label is predicted, and whether it holds, bool [D, C]."""
        known = self._known()
        return self.values["probability"][known] > 0.5, self.sequences.labels[known] > 0.5

    def owners(self) -> NDArray[np.int64]:
        """The examples whose labels are known."""
        return np.flatnonzero(self._known())

    def rows(self) -> Iterator[dict[str, Any]]:
        """Label names, and the probabilities of those predicted."""
        names = self.sequences.names
        labelled = self._known()
        for i in np.flatnonzero(self.seen):
            probability, labels = self.values["probability"][i], self.sequences.labels[i]
            chosen = np.flatnonzero(probability > 0.5)
            gold = [names[c] for c in np.flatnonzero(labels > 0.5)] if labelled[i] else None
            rounded = [round(float(probability[c]), 6) for c in chosen]
            yield _row(self.sequences.examples[i], gold, [names[c] for c in chosen], rounded)

    def tables(self) -> dict[str, Any]:
        """Per-label figures."""
        predicted, true = self.compared()
        counts = (true & predicted).sum(0), predicted.sum(0), true.sum(0)
        return {"per_class": [scores(n, *c) for n, *c in zip(self.sequences.names, *counts, strict=True)]}

    def _known(self) -> NDArray[np.bool_]:
        return np.asarray(self.seen & ~np.isnan(self.sequences.labels).any(1))


class NumberPredictions(Predictions):
    """A number per example."""

    kind, monitor = "regression", "spearman"

    def read(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The number."""
        return {"places": micro_batch["samples"], "predicted": output["logits"][:, 0]}

    def scored(self) -> tuple[Any, Any]:
        """Numbers [D], float64."""
        known = self._known()
        predicted, true = self.values["predicted"][known], self.sequences.labels[known]
        return predicted.astype(np.float64), true.astype(np.float64)

    def owners(self) -> NDArray[np.int64]:
        """The examples whose numbers are known."""
        return np.flatnonzero(self._known())

    def parts(self) -> list[Compared]:
        """Correlations and the mean squared error, also of a subclass with a kind of its own."""
        return [Compared("regression", *self.scored(), self.owners())]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Numbers; there is no probability."""
        for i in np.flatnonzero(self.seen):
            gold, predicted = float(self.sequences.labels[i]), float(self.values["predicted"][i])
            yield _row(self.sequences.examples[i], None if np.isnan(gold) else gold, predicted, None)

    def _known(self) -> NDArray[np.bool_]:
        return np.asarray(self.seen & ~np.isnan(self.sequences.labels))


def _row(example: Any, gold: Any, predicted: Any, probability: Any) -> dict[str, Any]:
    pair = {} if example.pair is None else {"pair": example.pair}
    known = {"gold": gold, "predicted": predicted, "probability": probability}
    return {"id": example.id, "text": example.text, **pair, **known}
