"""Predictions for questions: spans of their contexts, joined over windows."""

import json
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tiryns.runner.data.labelled.question_answering import QuestionSequences
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.evaluation.files import PredictionRow
from tiryns.runner.evaluation.predictions import Compared, Gather, Predictions

AROUND = 75
"""Characters of the context that are shown on each side of an answer."""


class QuestionPredictions(Predictions[QuestionSequences]):
    """The best span of each question's windows, or an empty text if allowed and better by more than `null_threshold`."""

    kind, monitor = "question_answering", "f1"

    def __init__(self, sequences: QuestionSequences, null_threshold: float) -> None:
        super().__init__(sequences)
        self.null_threshold = null_threshold

    def read(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns the best span of each window."""
        names = ("score", "null_score", "probability", "null_probability", "first", "last")
        return {"places": micro_batch["samples"], **{name: output[name] for name in names}}

    def join(self, gather: Gather) -> None:
        """Also chooses answers: a question's best span, or none if the least no-answer score of its windows is better.

        The probability of no answer is the least one of its windows.
        """
        super().join(gather)
        sequences, values = self.sequences, self.values
        seen = np.flatnonzero(self.seen)
        order = seen[np.lexsort((-values["score"][seen], sequences.questions[seen]))]
        questions, first = np.unique(sequences.questions[order], return_index=True)
        best = order[first]
        null, unlikely = (
            np.minimum.reduceat(values[name][order], first) for name in ("null_score", "null_probability")
        )
        empty = sequences.may_be_empty & (null - values["score"][best] > self.null_threshold)
        empty |= ~np.isfinite(values["score"][best])
        self.answers: dict[int, tuple[str, float]] = {}
        probabilities = np.where(empty, unlikely, values["probability"][best]).tolist()
        for question, window, none, p in zip(questions.tolist(), best, empty, probabilities, strict=True):
            start = sequences.places(np.array([window]))[0]
            begin = sequences.char_starts[start + values["first"][window]]
            end = sequences.char_ends[start + values["last"][window]]
            text = "" if none else str(sequences.examples[question].context)[begin:end]
            self.answers[question] = (text, p)

    def scored(self) -> tuple[list[str], list[list[str]]]:
        owners = self.owners().tolist()
        return [self.answers[i][0] for i in owners], [self.sequences.examples[i].answers for i in owners]

    def owners(self) -> NDArray[np.int64]:
        owners = [i for i in self.answers if self.sequences.examples[i].answers is not None]
        return np.array(owners, dtype=np.int64)

    def parts(self) -> list[Compared]:
        """Returns the part of all questions and, if answers may be empty, parts of questions with and without answer."""
        (whole,) = super().parts()
        return with_kinds(whole) if self.sequences.may_be_empty else [whole]

    def measured_names(self) -> list[str]:
        """Returns metric names; if answers may be empty, also for the set's answerable and unanswerable questions."""
        names = sorted(super().measured_names(), key=lambda name: name != self.monitor)
        answers = [e.answers for e in self.sequences.examples if e.answers is not None]
        kinds = {"answerable": any(answers), "unanswerable": not all(answers)}
        apart = [kind for kind, occurs in kinds.items() if occurs and self.sequences.may_be_empty]
        return [*names, *(f"{name}_{kind}" for kind in apart for name in names)]

    def rows(self) -> Iterator[PredictionRow]:
        """Yields rows. If answers are known, `gold` has all accepted ones, `excerpt` the context around the first one."""
        for i, (text, probability) in self.answers.items():
            example = self.sequences.examples[i]
            row: PredictionRow = {"id": example.id, "text": example.question, "gold": example.answers}
            row |= {"predicted": text, "probability": round(probability, 6)}
            if example.answers is not None:
                row["excerpt"] = surroundings(example.context, [*example.answers, text][0])
            yield row

    def files(self) -> dict[str, str]:
        """Returns `answers`: id -> text, the format of SQuAD's evaluation script."""
        answers = {row["id"]: row["predicted"] for row in self.rows()}
        return {"answers": json.dumps(answers, ensure_ascii=False)}


def with_kinds(whole: Compared) -> list[Compared]:
    """Returns the part of all questions, and the parts of questions with and without an answer."""
    parts = [whole]
    for kind, has_answer in (("answerable", True), ("unanswerable", False)):
        indices = [i for i, answers in enumerate(whole.true) if bool(answers) == has_answer]
        predictions, true = ([values[i] for i in indices] for values in (whole.predicted, whole.true))
        owners = None if whole.owners is None else whole.owners[indices]
        parts.append(Compared(whole.kind, predictions, true, owners, suffix=f"_{kind}"))
    return parts


def surroundings(context: str, answer: str) -> str:
    """Returns an answer's first occurrence with `AROUND` characters on each side; if missing, the context's beginning.

    Example:
        >>> surroundings("a river " * 20, "river")
        'a river a river a river a river a river a river a river a river a river a river a ...'
    """
    start = max(0, context.find(answer))
    first, last = max(0, start - AROUND), start + len(answer) + AROUND
    return "..." * (first > 0) + context[first:last] + "..." * (last < len(context))
