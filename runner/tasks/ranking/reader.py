"""Rows of a query and candidates with grades."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.data.labelled.examples import TaskSequences, column, text_of
from tiryns.runner.data.labelled.spelling import is_missing, parsed, unwrapped
from tiryns.runner.data.read.bad_rows import BadRow
from tiryns.runner.data.read.rows import Row, Rows
from tiryns.runner.evaluation.metrics import get_metrics_for_task
from tiryns.runner.tasks.ranking.lists import Candidates, ListReader, ListSequences


@dataclass(eq=False)
class RankingReader(ListReader):
    """Lists of candidates with grades; `arranged` makes them of relevant and other texts, or of rows of pairs."""

    pair_column: str | None
    negative_columns: Sequence[str] | str | None

    rows_hold = "lists"
    joins_rows = True
    noun = "candidate"
    fewest = 1

    def __post_init__(self) -> None:
        given = self.negative_columns
        self.negatives = [given] if isinstance(given, str) else list(given or ())

    def columns(self) -> tuple[str, ...]:
        """Those of query, candidates and grades."""
        if self.pair_column:
            return (self.text_column, self.pair_column, *self.negatives)
        return super().columns()

    def label_names(self) -> tuple[str, ...]:
        """The column of grades, or of the relevant candidates."""
        return (self.label_column, *([self.pair_column] if self.pair_column else []))

    def arranged(self, rows: Rows) -> Rows:
        """One row for each list: rows of a text each are joined where they share the id or else the query."""
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
        """A row with a list of candidates and a list of grades, and what it shares with the rows of the same list."""
        values, pair = dict(row.values), self.pair_column
        if pair is not None and pair in values:
            relevant, *others = (self._texts(row, name) for name in (pair, *self.negatives))
            values = {name: value for name, value in values.items() if name not in (pair, *self.negatives)}
            values[self.choices_column] = candidates = list(chain(relevant, *others))
            values[self.label_column] = [float(n < len(relevant)) for n in range(len(candidates))]
            return None, values
        is_text = isinstance(values.get(self.choices_column), str)
        if not is_text or isinstance(self.given(row), list | Mapping):
            return None, values
        query = text_of(row, self.text_column, "data.text_column")
        own = {self.choices_column, self.label_column} & values.keys()
        key = str(column(row, self.id_column, "data.id_column")) if self.id_column else query
        return key, values | {name: [values[name]] for name in own}

    def _texts(self, row: Row, name: str) -> list[str]:
        """The texts of a column, of which there may be none, one or a list."""
        value = unwrapped(column(row, name, "data.pair_column and data.negative_columns"))
        texts = [text for text in (value if isinstance(value, list) else [value]) if not is_missing(text)]
        if wrong := [text for text in texts if not isinstance(text, str)]:
            problem = f"column {name!r} holds {wrong[0]!r:.40}, expected a text or a list of texts"
            raise BadRow(row.where, problem, "no text")
        return texts

    def label(self, row: Row, count: int, labelled: bool) -> list[float] | None:
        """The grades of a row's candidates, 0 or more, above 0 for the relevant ones."""
        given = unwrapped(row.values.get(self.label_column))
        with suppress(ValueError):
            given = json.loads(given) if isinstance(given, str) and given else given
        some = given if isinstance(given, list) else [] if is_missing(given) else [given]
        if not labelled and (not some or any(map(is_missing, some))):
            return None
        if len(some) != count:
            problem = f"there are {len(some)} grades for {count} candidates"
            raise BadRow(row.where, f"{problem}: expected one for each", "grades of another number")
        return [self._grade(row, number, grade) for number, grade in enumerate(some, 1)]

    def _grade(self, row: Row, number: int, grade: Any) -> float:
        with suppress(TypeError, ValueError, OverflowError):
            if np.isfinite(value := float(parsed(grade))) and value >= 0:
                return value
        problem = f"the grade of candidate {number} is {grade!r:.40}, expected a number from 0"
        raise BadRow(row.where, problem, "no grade")

    def check(self, example: Candidates) -> None:
        """Raises BadRow for a list with grades of which nothing can be learnt."""
        if example.label is not None and len(example.label) < 2:
            raise BadRow(example.where, "there is one candidate only, expected two or more", "one candidate")
        if example.label is not None and not any(example.label):
            problem = "no candidate is relevant, expected a grade above 0"
            raise BadRow(example.where, problem, "no relevant candidate")

    def labels(self, examples: list[Candidates]) -> NDArray[np.float32]:
        """The grade of each candidate [X]."""
        grades = [e.label or [np.nan] * len(e.candidates) for e in examples]
        return np.concatenate([np.empty(0), *grades]).astype(np.float32)

    def state_dict(self) -> dict[str, Any]:
        """Nothing is learnt from the examples."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """There is nothing to restore."""

    def baselines(self, sequences: TaskSequences) -> dict[str, float]:
        """The figures of guessing, which are those of equal scores."""
        assert isinstance(sequences, ListSequences)
        cut = pairwise([0, *np.cumsum(sequences.counts)])
        lists = [grades for a, b in cut if not np.isnan(grades := sequences.labels[a:b]).any()]
        metrics = get_metrics_for_task("ranking") if lists else {}
        for metric in metrics.values():
            metric.update([np.zeros_like(grades) for grades in lists], lists)
        return {f"chance_{name}": float(metric.compute()) for name, metric in metrics.items()}
