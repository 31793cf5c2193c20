"""The task of multiple choice, and its predictions."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from transformers import PretrainedConfig, PreTrainedModel

from tiryns.runner.data.labelled.examples import Learnt
from tiryns.runner.data.labelled.lists import ListSequences
from tiryns.runner.evaluation.kinds.labels import OfLabels
from tiryns.runner.models.weights import load_trained
from tiryns.runner.tasks.base import Task
from tiryns.runner.tasks.multiple_choice.model import AutoModelForMultipleChoice, MultipleChoiceCollator
from tiryns.runner.tasks.multiple_choice.reader import MultipleChoiceReader


class ChoicePredictions(OfLabels[ListSequences]):
    """One of the choices of each example."""

    kind, monitor = "multiple_choice", "accuracy"

    def num_labels(self) -> int:
        """The choices of the example that has the most."""
        return int(self.sequences.counts.max(initial=1))

    def rows(self) -> Iterator[dict[str, Any]]:
        """Texts of choices."""
        for i in np.flatnonzero(self.seen).tolist():
            example, label = self.sequences.examples[i], self.sequences.labels[i]
            chosen, probability = self.values["predicted"][i], float(self.values["probability"][i])
            yield {
                "id": example.id,
                **({} if example.context is None else {"context": example.context}),
                "text": example.text,
                "choices": example.candidates,
                "gold": example.candidates[label] if label >= 0 else None,
                "predicted": example.candidates[chosen],
                "predicted_choice": example.names[chosen],
                "probability": round(probability, 6),
            }

    def tables(self) -> dict[str, Any]:
        """`numbers_of_choices`: for each number of choices the examples, their accuracy, and that of guessing."""
        predicted, true = self.of_known()
        right, counts, rows = predicted == true, self.sequences.counts[self.owners()], []
        for count in np.unique(counts).tolist():
            some = right[counts == count]
            known = {"choices": count, "examples": len(some)}
            rows.append({**known, "accuracy": float(some.mean()), "chance": 1 / count})
        return {"numbers_of_choices": rows} if rows else {}


class MultipleChoice(Task):
    """One of the choices of each text; examples may have different numbers of choices."""

    name = "multiple_choice"
    reader = MultipleChoiceReader
    objective = MultipleChoiceCollator
    evaluation = ChoicePredictions
    second = "choices_column"

    def assumed(self, config: PretrainedConfig) -> Learnt:
        """That labels are numbers of choices from 0."""
        return {"told_by": "number", "first": 0}

    def load(self, path: str) -> PreTrainedModel:
        """The trained model of a folder, also of an architecture without a class for multiple choice."""
        return load_trained(AutoModelForMultipleChoice, path)
