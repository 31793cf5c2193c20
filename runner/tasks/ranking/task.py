"""The task of ranking: its rows of a query and candidates with grades, its predictions and its data module."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from tiryns.conf.data import pairs as options
from tiryns.runner.config.calling import takes_settings
from tiryns.runner.data.labelled.examples import READER_SETTINGS, TaskSequences
from tiryns.runner.data.labelled.finetuning import FinetuningData
from tiryns.runner.data.labelled.lists import Candidates, ListReader, ListSequences, of_json
from tiryns.runner.data.labelled.spelling import is_missing
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.data.pairs.reader import finite_number, texts_in
from tiryns.runner.data.read.bad_rows import BadRow
from tiryns.runner.data.read.rows import Row, Rows
from tiryns.runner.evaluation.predictions import Compared, Predictions, metrics_of
from tiryns.runner.tasks.base import Task
from tiryns.runner.tasks.ranking.objective import RankingCollator


@dataclass(eq=False)
class RankingReader(ListReader):
    """Reads lists of candidates with grades; `arranged` makes lists from columns of texts, or from rows of one text."""

    pair_column: str | None
    negative_columns: Sequence[str]

    rows_hold = "lists"
    joins_rows = True
    noun = "candidate"
    fewest = 1

    def columns(self) -> tuple[str, ...]:
        pair = (self.text_column, self.pair_column, *self.negative_columns) if self.pair_column else ()
        return pair or super().columns()

    def label_names(self) -> tuple[str, ...]:
        """Returns the column of grades, or of the relevant candidates."""
        return (self.label_column, *([self.pair_column] if self.pair_column else []))

    def arranged(self, rows: Rows) -> Rows:
        """Returns one row for each list; joins rows of one candidate by their ids, or by queries if there are no ids."""
        lists: dict[int | str, tuple[str, dict[str, Any]]] = {}
        for number, row in enumerate(rows.rows):
            with rows.bad.row():
                key, values = self._list(row)
                _, first = lists.setdefault(number if key is None else key, (row.where, values))
                if first is not values:
                    for name in {self.choices_column, self.label_column} & values.keys():
                        first.setdefault(name, []).extend(values[name])
        return rows._replace(rows=[Row(where, values) for where, values in lists.values()])

    def _list(self, row: Row) -> tuple[str | None, dict[str, Any]]:
        """Returns the key of a row's list, and the row with its candidates as a list; a whole list has the key None."""
        values, pair = dict(row.values), self.pair_column
        if pair in values:
            columns, setting = (pair, *self.negative_columns), "data.pair_column and data.negative_columns"
            relevant, *others = (texts_in(row, name, setting) for name in columns)
            values = {name: value for name, value in values.items() if name not in columns}
            values[self.choices_column] = candidates = list(chain(relevant, *others))
            values[self.label_column] = [float(n < len(relevant)) for n in range(len(candidates))]
            return None, values
        is_list = isinstance(self.raw_choices(row), list | Mapping)
        if is_list or not isinstance(values.get(self.choices_column), str):
            return None, values
        query = row.text(self.text_column, "data.text_column")
        key = str(row.column(self.id_column, "data.id_column")) if self.id_column else query
        list_columns = {self.choices_column, self.label_column} & values.keys()
        return key, values | {name: [values[name]] for name in list_columns}

    def label(self, row: Row, count: int, labelled: bool) -> list[float] | None:
        """Returns the grades of a row's candidates, 0 or more, above 0 for the relevant ones."""
        cell = of_json(row.values.get(self.label_column))
        values = cell if isinstance(cell, list) else [] if is_missing(cell) else [cell]
        if not labelled and (not values or any(map(is_missing, values))):
            return None
        if len(values) != count:
            problem = f"there are {len(values)} grades for {count} candidates"
            raise BadRow(row.where, f"{problem}: expected one for each", "too few or too many grades")
        grades = list(map(finite_number, values))
        for number, (grade, text) in enumerate(zip(grades, values, strict=True), 1):
            if not grade >= 0:  # or NaN
                problem = f"the grade of candidate {number} is {text!r:.40}, expected a number from 0"
                raise BadRow(row.where, problem, "no grade")
        return grades

    def check(self, example: Candidates) -> None:
        """Raises BadRow for a list with grades but only one candidate, or no relevant candidate."""
        grades, where = example.label, example.where
        if grades is not None and len(grades) < 2:
            raise BadRow(where, "there is one candidate only, expected two or more", "one candidate")
        if grades is not None and not any(grades):
            raise BadRow(where, "no candidate is relevant, expected a grade above 0", "no relevant candidate")

    def labels(self, examples: list[Candidates]) -> NDArray[np.float32]:
        """Returns the grade of each candidate [X]."""
        grades = [e.label or [np.nan] * len(e.candidates) for e in examples]
        return np.concatenate([np.empty(0), *grades]).astype(np.float32)

    def baselines(self, sequences: TaskSequences) -> dict[str, float]:
        """Returns the metrics of guessing, computed with equal scores for all candidates."""
        assert isinstance(sequences, ListSequences)
        every = np.split(sequences.labels, np.cumsum(sequences.counts)[:-1])
        lists = [grades for grades in every if not np.isnan(grades).any()]
        figures = metrics_of([Compared("ranking", [np.zeros_like(one) for one in lists], lists)], 1)
        return {f"chance_{name}": value for name, value in figures.items()}


class RankingPredictions(Predictions[ListSequences]):
    """The scores of the candidates of each list."""

    kind, monitor = "ranking", "ndcg_at_10"

    def read(self, micro_batch: MicroBatch, output: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns the scores [E, C] for C candidates of the set's longest list."""
        logits, most = output["logits"].float(), int(self.sequences.counts.max())
        return {"places": micro_batch["samples"], "scores": pad(logits, (0, most - logits.shape[1]))}

    def scored(self) -> tuple[list[NDArray[np.float32]], list[NDArray[np.float32]]]:
        """Returns scores and grades of the candidates, for each list with known grades: two lists of arrays [C]."""
        owners = self.owners().tolist()
        grades = [np.array(self.sequences.examples[i].label, np.float32) for i in owners]
        return [self.scores(i) for i in owners], grades

    def owners(self) -> NDArray[np.int64]:
        """Returns the lists whose grades are known."""
        return np.flatnonzero(self.seen & [example.label is not None for example in self.sequences.examples])

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yields candidates, the best first, with their scores and grades; `gold` are the relevant candidates."""
        some_graded = len(self.owners()) > 0
        for i in np.flatnonzero(self.seen).tolist():
            example, scores = self.sequences.examples[i], self.scores(i)
            order = np.argsort(-scores, kind="stable").tolist()
            candidates, grades = [example.candidates[n] for n in order], example.label
            gold = [example.candidates[n] for n in order if grades[n]] if grades else None
            row = {"id": example.id, "text": example.text, "gold": gold, "predicted": candidates[0]}
            ranking = {"candidates": candidates, "scores": [round(float(scores[n]), 6) for n in order]}
            grade_field = {"grades": grades and [grades[n] for n in order]} if some_graded else {}
            yield {**row, "probability": None, **ranking, **grade_field}

    def scores(self, i: int) -> NDArray[np.float32]:
        """Returns the scores of the candidates of a list [C]."""
        return self.values["scores"][i, : self.sequences.counts[i]]


class Ranking(Task):
    """The candidates of each query in the order of their scores."""

    name = "ranking"
    reader = RankingReader
    objective = RankingCollator
    evaluation = RankingPredictions
    second = "choices_column"


class RankingData(FinetuningData):
    """Queries with candidates, from files, the hub, or code (`set_datasets`).

    Lists of one query are held out together. Example: `tiryns experiment=ranking data=ranking data.train=train.jsonl`
    """

    settings: options.RankingData
    reader_names = (*READER_SETTINGS, "negative_columns")

    @takes_settings(options.RankingData)
    def __init__(self, settings: options.RankingData) -> None:
        self.set_up(settings)

    def _groups(self, examples: list[Candidates], rows: Rows) -> list[str]:
        has_groups = self.settings.group_column is not None
        return super()._groups(examples, rows) if has_groups else [example.text for example in examples]
