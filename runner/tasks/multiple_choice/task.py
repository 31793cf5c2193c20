"""The task of multiple choice, as in SWAG, RACE and COPA: texts with choices, of which one is right."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import PretrainedConfig, PreTrainedModel

from tiryns.runner.data.labelled.examples import Learnt, TaskSequences
from tiryns.runner.data.labelled.labels import UNLABELLED, majority_accuracy
from tiryns.runner.data.labelled.lists import Candidates, ListReader, ListSequences
from tiryns.runner.data.labelled.spelling import is_missing, is_whole, to_python, whole_number
from tiryns.runner.data.read.bad_rows import BadRow
from tiryns.runner.data.read.rows import Row, Rows
from tiryns.runner.evaluation.kinds.labels import OfLabels
from tiryns.runner.models.weights import load_trained
from tiryns.runner.tasks.base import Task
from tiryns.runner.tasks.multiple_choice.model import AutoModelForMultipleChoice, MultipleChoiceCollator

KINDS = ("text", "name", "number")
"""How labels identify the right choice: by its text, by its name (a letter), or by its number."""


@dataclass(eq=False)
class MultipleChoiceReader(ListReader):
    """Columns of multiple choice data.

    Without a context the text precedes each choice; with a context, it precedes text and choice. All training labels
    identify the choice in the same way: by its text, by its name or letter, or by its number. Numbers begin at 0, or at 1
    if no number is 0 and some number equals the count of choices.
    """

    learnt = ("told_by", "first")

    context_column: str | None = None
    told_by: str = field(default="number", init=False)
    first: int = field(default=0, init=False)

    def label(self, row: Row, count: int, labelled: bool) -> object:
        """Returns the label of the right choice; without a label returns None, or raises BadRow if `labelled`."""
        label = to_python(row.values.get(self.label_column))
        if not is_missing(label):
            return label
        if labelled:
            raise BadRow(row.where, f"there is no label in column {self.label_column!r}", "no label")
        return None

    def learn(self, examples: list[Candidates], rows: Rows) -> None:
        """Learns how labels identify the right choice: the first way that fits all of them."""
        labelled_examples = [e for e in examples if e.label is not None]
        numbers = [_number(e.label) for e in labelled_examples]
        last = any(number == len(e.candidates) for e, number in zip(labelled_examples, numbers, strict=True))
        self.first = int(last and 0 not in numbers)
        problems = []
        for self.told_by in KINDS:
            wrong = next((e for e in labelled_examples if self._place(e) is None), None)
            if wrong is None:
                return
            problems.append(f"no {self.told_by} of a choice is {wrong.label!r:.40} ({wrong.where})")
        raise ValueError(
            f"data.label_column={self.label_column}: the labels do not tell the right choice in one way: "
            f"{'; '.join(problems)}. Expected all labels to be texts of choices, or all letters, or all numbers"
        )

    def labels(self, examples: list[Candidates]) -> NDArray[np.int64]:
        """Returns the index of the right choice [E]; -100 for unknown."""
        return np.array(list(map(self.target, examples)), dtype=np.int64)

    def strata(self, examples: list[Candidates]) -> list[str]:
        return [str(self.target(e)) for e in examples]

    def baselines(self, sequences: TaskSequences) -> dict[str, float]:
        """Returns the accuracy of guessing, and of always taking the position that is most often right."""
        assert isinstance(sequences, ListSequences)
        counts = sequences.counts[sequences.labels != UNLABELLED]
        chance = {"chance_accuracy": float((1 / counts).mean())} if len(counts) else {}
        return {**chance, **majority_accuracy(sequences.labels)}

    def describe(self) -> dict[str, str]:
        from_one = ", from 1" if self.told_by == "number" and self.first == 1 else ""
        return {"labels": f"the {self.told_by} of the choice{from_one}"}

    def target(self, example: Candidates) -> int:
        """Returns the index of the right choice, -100 if unknown; raises BadRow for a label of no choice."""
        if example.label is None:
            return UNLABELLED
        if (place := self._place(example)) is None:
            among = f"none of the {len(example.candidates)} choices"
            problem = f"the label {example.label!r:.60} is the {self.told_by} of {among}"
            raise BadRow(example.where, problem, "label of no choice")
        return place

    def _place(self, example: Candidates) -> int | None:
        """Returns the index of the choice that the label identifies; None for a label of no choice."""
        if self.told_by == "number":
            number = _number(example.label)
            place = -1 if number is None else number - self.first
            return place if 0 <= place < len(example.candidates) else None
        keys = example.candidates if self.told_by == "text" else example.names
        label = str(example.label).strip() if isinstance(example.label, str) else None
        return keys.index(label) if label in keys else None


def _number(label: Any) -> int | None:
    """Returns a label as a whole number; None for another label."""
    return whole_number(label) if is_whole(label) else None


class ChoicePredictions(OfLabels[ListSequences]):
    """One of the choices of each example."""

    kind, monitor = "multiple_choice", "accuracy"

    def num_labels(self) -> int:
        """Returns the largest number of choices of an example."""
        return int(self.sequences.counts.max(initial=1))

    def rows(self) -> Iterator[dict[str, Any]]:
        for i in np.flatnonzero(self.seen).tolist():
            example, label = self.sequences.examples[i], self.sequences.labels[i]
            choice, probability = self.values["predicted"][i], float(self.values["probability"][i])
            yield {
                "id": example.id, **({} if example.context is None else {"context": example.context}),
                "text": example.text, "choices": example.candidates,
                "gold": example.candidates[label] if label >= 0 else None,
                "predicted": example.candidates[choice], "predicted_choice": example.names[choice],
                "probability": round(probability, 6),
            }  # fmt: skip

    def tables(self) -> dict[str, Any]:
        """Returns `numbers_of_choices`: for each number of choices the examples, their accuracy, and the chance."""
        predictions, true = self.of_known()
        right, counts, rows = predictions == true, self.sequences.counts[self.owners()], []
        for count in np.unique(counts).tolist():
            group = right[counts == count]
            sizes = {"choices": count, "examples": len(group)}
            rows.append({**sizes, "accuracy": float(group.mean()), "chance": 1 / count})
        return {"numbers_of_choices": rows} if rows else {}


class MultipleChoice(Task):
    """One of the choices of each text; examples may have different numbers of choices."""

    name = "multiple_choice"
    reader = MultipleChoiceReader
    objective = MultipleChoiceCollator
    evaluation = ChoicePredictions
    second = "choices_column"

    def reader_state(self, config: PretrainedConfig) -> Learnt:
        """Returns the state for labels that are numbers of choices from 0."""
        return {"told_by": "number", "first": 0}

    def load(self, path: str) -> PreTrainedModel:
        """Returns the trained model of a folder, also of an architecture without a class for multiple choice."""
        return load_trained(AutoModelForMultipleChoice, path)
