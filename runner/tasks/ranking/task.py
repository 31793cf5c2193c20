"""The tasks of ranking, candidates by grades and multiple choice, where one of them is right; predictions and data."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from tiryns.conf.data import pairs as options
from tiryns.runner.config.settings import takes_settings
from tiryns.runner.data.labelled.examples import READER_SETTINGS
from tiryns.runner.data.labelled.finetuning import FinetuningData
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.data.read.rows import Rows
from tiryns.runner.evaluation.kinds.labels import OfLabels
from tiryns.runner.evaluation.predictions import Predictions
from tiryns.runner.models.weights import load_trained
from tiryns.runner.tasks.base import Task
from tiryns.runner.tasks.ranking.choices import MultipleChoiceReader
from tiryns.runner.tasks.ranking.model import AutoModelForMultipleChoice
from tiryns.runner.tasks.ranking.objective import MultipleChoiceCollator, RankingCollator
from tiryns.runner.tasks.ranking.reader import RankingReader


class RankingPredictions(Predictions):
    """The scores of the candidates of each list."""

    kind, monitor = "ranking", "ndcg_at_10"

    def read(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The scores [E, C] for C candidates of the set's longest list."""
        logits, most = output["logits"].float(), int(self.sequences.counts.max())
        return {"places": micro_batch["samples"], "scores": pad(logits, (0, most - logits.shape[1]))}

    def scored(self) -> tuple[Any, Any]:
        """Scores and grades of the candidates of each list whose grades are known: lists of arrays [C]."""
        known = self.owners()
        return [self._scores(i) for i in known], [
            np.array(self.sequences.examples[i].label, np.float32) for i in known
        ]

    def owners(self) -> NDArray[np.int64]:
        """The lists whose grades are known."""
        known = [example.label is not None for example in self.sequences.examples]
        return np.flatnonzero(self.seen & known)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Candidates, the best first, with their scores and grades; `gold` are the relevant ones."""
        some_graded = len(self.owners()) > 0
        for i in np.flatnonzero(self.seen):
            example, scores = self.sequences.examples[i], self._scores(i)
            order = np.argsort(-scores, kind="stable").tolist()
            candidates, grades = [example.candidates[n] for n in order], example.label
            sorted_grades = [grades[n] for n in order] if grades else None
            yield {
                "id": example.id,
                "text": example.text,
                "gold": [example.candidates[n] for n in order if grades[n]] if grades else None,
                "predicted": candidates[0],
                "probability": None,
                "candidates": candidates,
                "scores": [round(float(scores[n]), 6) for n in order],
                **({"grades": sorted_grades} if some_graded else {}),
            }

    def _scores(self, i: Any) -> NDArray[np.float32]:
        found: NDArray[np.float32] = self.values["scores"][i, : self.sequences.counts[i]]
        return found


class ChoicePredictions(OfLabels):
    """One of the choices of each example."""

    kind, monitor = "multiple_choice", "accuracy"

    def num_labels(self) -> int:
        """The choices of the example that has the most."""
        return int(self.sequences.counts.max(initial=1))

    def rows(self) -> Iterator[dict[str, Any]]:
        """Texts of choices."""
        for i in np.flatnonzero(self.seen):
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


class Ranking(Task):
    """The candidates of each query in the order of their scores."""

    name = "ranking"
    reader = RankingReader
    objective = RankingCollator
    evaluation = RankingPredictions
    second = "choices_column"


class MultipleChoice(Task):
    """One of the choices of each text; examples may have different numbers of choices."""

    name = "multiple_choice"
    reader = MultipleChoiceReader
    objective = MultipleChoiceCollator
    evaluation = ChoicePredictions
    second = "choices_column"

    def assumed(self, config: Any) -> dict[str, Any]:
        """That labels are numbers of choices from 0."""
        return {"told_by": "number", "first": 0}

    def load(self, path: str) -> Any:
        """The trained model of a folder, also of an architecture without a class for multiple choice."""
        return load_trained(AutoModelForMultipleChoice, path)


class RankingData(FinetuningData):
    """Queries with candidates, from files, the hub, or made in code (`set_datasets`).

    Lists of one query are held out together. Example: `tiryns experiment=ranking data=ranking data.train=train.jsonl`
    """

    settings: options.RankingData
    reader_names = (*READER_SETTINGS, "negative_columns")

    @takes_settings(options.RankingData)
    def __init__(self, settings: options.RankingData) -> None:
        self.set_up(settings)

    def _groups(self, examples: list[Any], rows: Rows) -> list[str]:
        given = self.settings.group_column is not None
        return super()._groups(examples, rows) if given else [example.text for example in examples]
