"""The task of ranking, its predictions and its data module."""

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
from tiryns.runner.data.labelled.lists import Candidates, ListSequences
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.data.read.rows import Rows
from tiryns.runner.evaluation.predictions import Predictions
from tiryns.runner.tasks.base import Task
from tiryns.runner.tasks.ranking.objective import RankingCollator
from tiryns.runner.tasks.ranking.reader import RankingReader


class RankingPredictions(Predictions[ListSequences]):
    """The scores of the candidates of each list."""

    kind, monitor = "ranking", "ndcg_at_10"

    def read(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The scores [E, C] for C candidates of the set's longest list."""
        logits, most = output["logits"].float(), int(self.sequences.counts.max())
        return {"places": micro_batch["samples"], "scores": pad(logits, (0, most - logits.shape[1]))}

    def scored(self) -> tuple[list[NDArray[np.float32]], list[NDArray[np.float32]]]:
        """Scores and grades of the candidates of each list whose grades are known: lists of arrays [C]."""
        known = self.owners().tolist()
        grades = [np.array(self.sequences.examples[i].label, np.float32) for i in known]
        return [self.scores(i) for i in known], grades

    def owners(self) -> NDArray[np.int64]:
        """The lists whose grades are known."""
        return np.flatnonzero(self.seen & [example.label is not None for example in self.sequences.examples])

    def rows(self) -> Iterator[dict[str, Any]]:
        """Candidates, the best first, with their scores and grades; `gold` are the relevant ones."""
        some_graded = len(self.owners()) > 0
        for i in np.flatnonzero(self.seen).tolist():
            example, scores = self.sequences.examples[i], self.scores(i)
            order = np.argsort(-scores, kind="stable").tolist()
            candidates, grades = [example.candidates[n] for n in order], example.label
            gold = [example.candidates[n] for n in order if grades[n]] if grades else None
            row = {"id": example.id, "text": example.text, "gold": gold, "predicted": candidates[0]}
            ranked = {"candidates": candidates, "scores": [round(float(scores[n]), 6) for n in order]}
            graded = {"grades": grades and [grades[n] for n in order]} if some_graded else {}
            yield {**row, "probability": None, **ranked, **graded}

    def scores(self, i: int) -> NDArray[np.float32]:
        """The scores of the candidates of a list [C]."""
        return self.values["scores"][i, : self.sequences.counts[i]]


class Ranking(Task):
    """The candidates of each query in the order of their scores."""

    name = "ranking"
    reader = RankingReader
    objective = RankingCollator
    evaluation = RankingPredictions
    second = "choices_column"


class RankingData(FinetuningData):
    """Queries with candidates, from files, the hub, or made in code (`set_datasets`).

    Lists of one query are held out together. Example: `tiryns experiment=ranking data=ranking data.train=train.jsonl`
    """

    settings: options.RankingData
    reader_names = (*READER_SETTINGS, "negative_columns")

    @takes_settings(options.RankingData)
    def __init__(self, settings: options.RankingData) -> None:
        self.set_up(settings)

    def _groups(self, examples: list[Candidates], rows: Rows) -> list[str]:
        given = self.settings.group_column is not None
        return super()._groups(examples, rows) if given else [example.text for example in examples]
