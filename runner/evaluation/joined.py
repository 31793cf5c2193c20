"""Figures of predictions that several runs have made for parts of one data set, from the rows of their files."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from tiryns.runner.data.labelled.words.tags import tagging_of
from tiryns.runner.evaluation.kinds.tags import mean_score
from tiryns.runner.evaluation.metrics import ENTITY_FIGURES
from tiryns.runner.evaluation.predictions import Compared, measured

Rows = Sequence[Mapping[str, Any]]
"""Lines of `predictions.jsonl`."""


def measured_rows(kind: str, rows: Rows, names: Sequence[str] = ()) -> dict[str, float]:
    """The metrics of a kind of predictions for rows with labels, as those of a run's test; none for an unknown kind.

    `names` are the labels there are; without them those of the rows.

    Example:
        >>> rows = [{"gold": "a", "predicted": "a"}, {"gold": "b", "predicted": "a"}]
        >>> measured_rows("classification", rows)["accuracy"]
        0.5
    """
    known = [row for row in rows if row["gold"] is not None]
    if kind not in PARTS or not known:
        return {}
    names = names or sorted({*chain.from_iterable(_labels(row) for row in known)})
    found: dict[str, float] = {}
    for part in PARTS[kind](known, names):
        values = measured(part.kind, len(names) or 1, part.predicted, part.true, part.only)
        found |= {f"{name}{part.suffix}": value for name, value in values.items()}
    if kind == "joint_tagging":
        columns = [name.removeprefix("accuracy_") for name in found if name.startswith("accuracy_")]
        found |= mean_score(
            found, {name: "entity_f1" if f"entity_f1_{name}" in found else "accuracy" for name in columns}
        )
    return found


def _labels(row: Mapping[str, Any]) -> set[str]:
    """The labels that stand in a row; texts of answers count as well, for which no names are needed."""
    both = (row["gold"], row["predicted"])
    return {str(one) for each in both for one in (each if isinstance(each, list) else [each])}


def _classes(rows: Rows, names: Sequence[str]) -> list[Compared]:
    numbers = {name: number for number, name in enumerate(names)}
    predicted, true = (np.array([numbers[row[side]] for row in rows]) for side in ("predicted", "gold"))
    return [Compared("classification", predicted, true, None)]


def _choices(rows: Rows, names: Sequence[str]) -> list[Compared]:
    return [part._replace(kind="multiple_choice") for part in _classes(rows, names)]


def _several(rows: Rows, names: Sequence[str]) -> list[Compared]:
    predicted, true = (
        np.array([[name in row[side] for name in names] for row in rows]) for side in ("predicted", "gold")
    )
    return [Compared("multi_label", predicted, true, None)]


def _numbers(rows: Rows, names: Sequence[str]) -> list[Compared]:
    predicted, true = (np.array([float(row[side]) for row in rows]) for side in ("predicted", "gold"))
    return [Compared("regression", predicted, true, None)]


def _words(rows: Rows, names: Sequence[str]) -> list[Compared]:
    words = [
        {"predicted": p, "gold": g}
        for row in rows
        for p, g in zip(row["predicted"], row["gold"], strict=True)
    ]
    (of_words,) = _classes(words, names)
    parts = [of_words._replace(kind="token_classification", only=["accuracy"])]
    if tagging := tagging_of(names, all_names=False):
        predicted, true = ([tagging.iob(row[side]) for row in rows] for side in ("predicted", "gold"))
        parts.append(Compared("token_classification", predicted, true, None, ENTITY_FIGURES))
    return parts


def _columns(rows: Rows, names: Sequence[str]) -> list[Compared]:
    parts = []
    for column in dict.fromkeys(chain.from_iterable(row["gold"] for row in rows)):
        known = [row for row in rows if column in row["gold"]]
        some = [{side: row[side][column] for side in ("predicted", "gold")} for row in known]
        own = sorted({*chain.from_iterable(chain(row["predicted"], row["gold"]) for row in some)})
        of_column = _words(some, own)
        parts += [part._replace(suffix=f"_{column}", num_labels=len(own)) for part in of_column]
    return parts


def _answers(rows: Rows, names: Sequence[str]) -> list[Compared]:
    kinds = {"": rows}
    if any(not row["gold"] for row in rows):
        kinds["_answerable"] = [row for row in rows if row["gold"]]
        kinds["_unanswerable"] = [row for row in rows if not row["gold"]]
    return [
        Compared(
            "question_answering",
            [r["predicted"] for r in some],
            [r["gold"] for r in some],
            None,
            suffix=suffix,
        )
        for suffix, some in kinds.items()
    ]


PARTS = {
    "classification": _classes,
    "multi_label": _several,
    "regression": _numbers,
    "token_classification": _words,
    "joint_tagging": _columns,
    "question_answering": _answers,
    "multiple_choice": _choices,
}
"""What the metrics of each kind are computed of."""
