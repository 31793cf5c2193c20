"""Predictions for whole texts: a label, several labels, a number, or one of their choices."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.evaluation.predictions import Compared, Predictions, confusion_tables, scores
from tiryns.runner.evaluation.thresholds import Thresholds


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
    """Any number of labels per example, each above its threshold, which is 0.5 if none is given."""

    kind, monitor = "multi_label", "micro_f1"

    def __init__(self, sequences: Any, thresholds: Thresholds | None = None) -> None:
        super().__init__(sequences)
        self.thresholds = thresholds or Thresholds(None, ())

    def calibrate(self) -> None:
        """Chooses the thresholds, if that is asked for."""
        known = self._known()
        if known.any():
            self.thresholds.choose(self.values["probability"][known], self.sequences.labels[known] > 0.5)

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
        return self._predicted()[known], self.sequences.labels[known] > 0.5

    def owners(self) -> NDArray[np.int64]:
        """The examples whose labels are known."""
        return np.flatnonzero(self._known())

    def rows(self) -> Iterator[dict[str, Any]]:
        """Label names, and the probabilities of those predicted; `none` is that of none, where none is predicted."""
        names = self.sequences.names
        labelled, predicted = self._known(), self._predicted()
        for i in np.flatnonzero(self.seen):
            probability, labels = self.values["probability"][i], self.sequences.labels[i]
            chosen = np.flatnonzero(predicted[i])
            gold = [names[c] for c in np.flatnonzero(labels > 0.5)] if labelled[i] else None
            rounded = [round(float(probability[c]), 6) for c in chosen]
            none = {} if len(chosen) else {"none": round(1 - float(probability.max()), 6)}
            yield {**_row(self.sequences.examples[i], gold, [names[c] for c in chosen], rounded), **none}

    def tables(self) -> dict[str, Any]:
        """Per-label figures, with the thresholds if they are not the usual one."""
        predicted, true = self.compared()
        counts = (true & predicted).sum(0), predicted.sum(0), true.sum(0)
        rows = [scores(n, *c) for n, *c in zip(self.sequences.names, *counts, strict=True)]
        if self.thresholds.settings():
            values = np.broadcast_to(self.thresholds.values, len(rows)).tolist()
            rows = [{**row, "threshold": value} for row, value in zip(rows, values, strict=True)]
        return {"per_class": rows}

    def _predicted(self) -> NDArray[np.bool_]:
        """Whether each label is predicted, of all places [D, C]."""
        return np.asarray(self.values["probability"] > self.thresholds.values)

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


class ChoicePredictions(Predictions):
    """One of the choices of each example."""

    kind, monitor = "multiple_choice", "accuracy"

    def read(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The number of the choice with the highest score, from 0, and its probability."""
        probability, predicted = output["logits"].softmax(-1).max(-1)
        return {"places": micro_batch["samples"], "predicted": predicted, "probability": probability}

    def scored(self) -> tuple[Any, Any]:
        """Numbers of choices [E]."""
        known = self.owners()
        return self.values["predicted"][known], self.sequences.labels[known]

    def owners(self) -> NDArray[np.int64]:
        """The examples whose labels are known."""
        return np.flatnonzero(self.seen & (self.sequences.labels >= 0))

    def num_labels(self) -> int:
        """The choices of the example that has the most."""
        return int(self.sequences.counts.max(initial=1))

    def rows(self) -> Iterator[dict[str, Any]]:
        """Texts of choices."""
        for i in np.flatnonzero(self.seen):
            example, label = self.sequences.examples[i], self.sequences.labels[i]
            context = {} if example.context is None else {"context": example.context}
            yield {
                "id": example.id,
                **context,
                "text": example.text,
                "choices": example.choices,
                "gold": example.choices[label] if label >= 0 else None,
                "predicted": example.choices[self.values["predicted"][i]],
                "predicted_choice": example.names[self.values["predicted"][i]],
                "probability": round(float(self.values["probability"][i]), 6),
            }

    def tables(self) -> dict[str, Any]:
        """`numbers_of_choices`: for each number of choices the examples, their accuracy, and that of guessing."""
        known, counts = self.owners(), self.sequences.counts
        right = self.values["predicted"][known] == self.sequences.labels[known]
        rows = [
            {
                "choices": int(count),
                "examples": int((counts[known] == count).sum()),
                "accuracy": float(right[counts[known] == count].mean()),
                "chance": 1 / float(count),
            }
            for count in np.unique(counts[known])
        ]
        return {"numbers_of_choices": rows} if rows else {}


def _row(example: Any, gold: Any, predicted: Any, probability: Any) -> dict[str, Any]:
    pair = {} if example.pair is None else {"pair": example.pair}
    known = {"gold": gold, "predicted": predicted, "probability": probability}
    return {"id": example.id, "text": example.text, **pair, **known}
