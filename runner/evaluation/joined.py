"""Measures joined predictions: several runs predict parts of one data set, and the rows of their files are joined."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from tiryns.runner.data.labelled.words.tags import tagging_of
from tiryns.runner.evaluation.files import PredictionRow
from tiryns.runner.evaluation.kinds.spans import with_kinds
from tiryns.runner.evaluation.kinds.words import mean_score
from tiryns.runner.evaluation.metrics import ENTITY_FIGURES
from tiryns.runner.evaluation.predictions import Compared, metrics_of

Rows = Sequence[PredictionRow]
"""Lines of `predictions.jsonl`."""

Parts = Callable[[Rows, Sequence[str]], list[Compared]]
"""A function from rows and the names of labels to the parts that metrics compare."""


def measured_rows(kind: str, rows: Rows, names: Sequence[str] = ()) -> dict[str, float]:
    """Returns the metrics of labelled rows, as a run's test computes them; empty for an unknown kind, or without labels.

    `names` are all labels; by default the labels that occur in the rows.

    Example:
        >>> rows = [{"gold": "a", "predicted": "a"}, {"gold": "b", "predicted": "a"}]
        >>> measured_rows("classification", rows)["accuracy"]
        0.5
    """
    labelled_rows = [row for row in rows if row["gold"] is not None]
    if kind not in PARTS or not labelled_rows:
        return {}
    # texts of answers count as well, for which no names are needed
    both = (row[side] for row in labelled_rows for side in ("gold", "predicted"))
    each = chain.from_iterable(one if isinstance(one, list) else [one] for one in both)
    names = names or sorted({*map(str, each)})
    metrics = metrics_of(PARTS[kind](labelled_rows, names), len(names) or 1)
    if kind == "joint_tagging":
        columns = [name.removeprefix("accuracy_") for name in metrics if name.startswith("accuracy_")]
        metrics |= mean_score(
            metrics, {name: "entity_f1" if f"entity_f1_{name}" in metrics else "accuracy" for name in columns}
        )
    return metrics


def _make_part(kind: str) -> Parts:
    """Makes the `Parts` function of a kind. It turns a row into a class index, a number, or a boolean for each label."""

    def parts(rows: Rows, names: Sequence[str]) -> list[Compared]:
        of: Callable[[Any], object] = {name: number for number, name in enumerate(names)}.__getitem__
        if kind in ("regression", "multi_label"):
            of = float if kind == "regression" else lambda labels: [name in labels for name in names]
        predictions, true = (np.array([of(row[side]) for row in rows]) for side in ("predicted", "gold"))
        return [Compared(kind, predictions, true)]

    return parts


def _words(rows: Rows, names: Sequence[str]) -> list[Compared]:
    both = (zip(row["predicted"], row["gold"], strict=True) for row in rows)
    words = [{"predicted": p, "gold": g} for p, g in chain.from_iterable(both)]
    (of_words,) = _make_part("token_classification")(words, names)
    parts = [of_words._replace(only=["accuracy"])]
    if tagging := tagging_of(names, all_names=False):
        predictions, true = ([tagging.iob(row[side]) for row in rows] for side in ("predicted", "gold"))
        parts.append(Compared("token_classification", predictions, true, only=ENTITY_FIGURES))
    return parts


def _columns(rows: Rows, names: Sequence[str]) -> list[Compared]:
    parts = []
    for column in dict.fromkeys(chain.from_iterable(row["gold"] for row in rows)):
        labelled_rows = [row for row in rows if column in row["gold"]]
        pairs = [{side: row[side][column] for side in ("predicted", "gold")} for row in labelled_rows]
        tags = sorted({*chain.from_iterable(chain(row["predicted"], row["gold"]) for row in pairs)})
        parts += [part._replace(suffix=f"_{column}", num_labels=len(tags)) for part in _words(pairs, tags)]
    return parts


def _answers(rows: Rows, names: Sequence[str]) -> list[Compared]:
    predictions, true = ([row[side] for row in rows] for side in ("predicted", "gold"))
    whole = Compared("question_answering", predictions, true)
    return [whole] if all(true) else with_kinds(whole)


def _lists(rows: Rows, names: Sequence[str]) -> list[Compared]:
    scores, grades = ([np.array(row[side]) for row in rows] for side in ("scores", "grades"))
    return [Compared("ranking", scores, grades)]


PARTS: dict[str, Parts] = {
    **{kind: _make_part(kind) for kind in ("classification", "multi_label", "regression", "multiple_choice")},
    "token_classification": _words,
    "joint_tagging": _columns,
    "question_answering": _answers,
    "ranking": _lists,
}
"""For each kind the function that makes the parts to compare."""
