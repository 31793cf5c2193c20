"""Predictions for questions: spans of their contexts, joined over windows."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from torch import Tensor

from iolaus.runner.data.micro_batch import MicroBatch
from iolaus.runner.evaluation.metrics import get_metrics_for_task
from iolaus.runner.evaluation.predictions import Gather, Predictions


class QuestionPredictions(Predictions):
    """A text per question: the best span over all windows of its context, or none where that may be and scores more."""

    kind, monitor = "question_answering", "f1"

    def __init__(self, sequences: Any, null_threshold: float) -> None:
        super().__init__(sequences)
        self.null_threshold = null_threshold

    def size(self) -> int:
        """Windows."""
        return len(self.sequences)

    def read(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The best span of each window."""
        names = ("score", "null_score", "probability", "first", "last")
        return {"places": micro_batch["samples"], **{name: output[name] for name in names}}

    def join(self, gather: Gather) -> None:
        """Also chooses between windows: the best score, against the least of their scores for no answer."""
        super().join(gather)
        sequences, values = self.sequences, self.values
        seen = np.flatnonzero(self.seen)
        order = seen[np.lexsort((-values["score"][seen], sequences.questions[seen]))]
        questions, first = np.unique(sequences.questions[order], return_index=True)
        best = order[first]
        null = np.minimum.reduceat(values["null_score"][order], first)
        empty = sequences.may_be_empty & (null - values["score"][best] > self.null_threshold)
        self.answers: dict[int, tuple[str, float]] = {}
        for question, window, none in zip(
            questions.tolist(), best, empty | ~np.isfinite(values["score"][best]), strict=True
        ):
            text = "" if none else self._text(window)
            self.answers[question] = (text, float(values["probability"][window]))

    def scored(self) -> tuple[Any, Any]:
        """Texts, and the accepted answers of each."""
        accepted = self._accepted()
        known = [i for i in self.answers if i in accepted]
        return [self.answers[i][0] for i in known], [accepted[i] for i in known]

    def _accepted(self) -> dict[int, list[str]]:
        return {i: e.answers for i, e in enumerate(self.sequences.examples) if e.answers is not None}

    def measure(self) -> dict[str, float]:
        """Exact match and F1; apart for questions with and without an answer where there are both."""
        accepted = self._accepted()
        chosen = [i for i in self.answers if i in accepted]
        found = self._overlap(chosen, accepted)
        if self.sequences.may_be_empty:
            for name, some in (
                ("answerable", [i for i in chosen if accepted[i]]),
                ("unanswerable", [i for i in chosen if not accepted[i]]),
            ):
                found |= {f"{measure}_{name}": v for measure, v in self._overlap(some, accepted).items()}
        return found

    def measured_names(self) -> list[str]:
        """Also those of questions with and without an answer, where there are both."""
        names = sorted(super().measured_names(), key=lambda name: name != self.monitor)
        answers = [e.answers for e in self.sequences.examples if e.answers is not None]
        kinds = [
            *(["answerable"] if any(answers) else []),
            *(["unanswerable"] if not all(answers) else []),
        ]
        apart = kinds if self.sequences.may_be_empty else []
        return [*names, *(f"{name}_{kind}" for kind in apart for name in names)]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Texts; all accepted answers as gold."""
        for i, (text, probability) in self.answers.items():
            example = self.sequences.examples[i]
            yield {
                "id": example.id,
                "text": example.question,
                "gold": example.answers,
                "predicted": text,
                "probability": round(probability, 6),
            }

    def files(self) -> dict[str, str]:
        """`answers`: id -> text, the format of SQuAD's evaluation script."""
        answers = {row["id"]: row["predicted"] for row in self.rows()}
        return {"answers": json.dumps(answers, ensure_ascii=False)}

    def _text(self, window: int) -> str:
        """The context between the first and last token of a window's best span."""
        sequences = self.sequences
        start = sequences.places(np.array([window]))[0]
        begin = sequences.char_starts[start + self.values["first"][window]]
        end = sequences.char_ends[start + self.values["last"][window]]
        return str(sequences.examples[sequences.questions[window]].context)[begin:end]

    def _overlap(self, chosen: list[int], accepted: Mapping[int, list[str]]) -> dict[str, float]:
        if not chosen:
            return {}
        metrics = get_metrics_for_task("question_answering", 0, sync_on_compute=False)
        for metric in metrics.values():
            metric.update([self.answers[i][0] for i in chosen], [accepted[i] for i in chosen])
        return {name: float(metric.compute()) for name, metric in metrics.items()}
