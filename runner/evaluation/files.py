"""Predictions and tables as files of a folder."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tiryns.runner.run.files import write_atomically

if TYPE_CHECKING:  # pages of runs are drawn without torch
    from tiryns.runner.evaluation.predictions import Predictions

EVALUATION, PREDICTIONS = "evaluation.json", "predictions.jsonl"

Entry = dict[str, Any]
"""The content of `evaluation.json`, or its metrics and tables of one set."""

PredictionRow = dict[str, Any]
"""A line of `predictions.jsonl`."""


def write_predictions(
    folder: Path, sets: Mapping[str, "Predictions"], metrics: Mapping[str, float], facts: Mapping[str, object]
) -> None:
    """Writes the predictions of a run for each set, by name (`val/validation`, `test/test`), as `write_sets` does."""
    entries = {}
    for name, predictions in sets.items():
        set_metrics = {k.removeprefix(f"{name}/"): v for k, v in metrics.items() if k.startswith(f"{name}/")}
        entries[name] = entry_of(predictions, set_metrics)
    write_sets(folder, sets, {**facts, "sets": entries})


def entry_of(predictions: "Predictions", metrics: Mapping[str, float]) -> Entry:
    """Returns a set's entry in `evaluation.json`: `kind`, number of `examples`, `metrics`, and the tables of the task."""
    examples = sum(1 for _ in predictions.rows())
    return {"kind": predictions.kind, "examples": examples, "metrics": dict(metrics), **predictions.tables()}


def write_sets(folder: Path, sets: Mapping[str, "Predictions"], evaluation: Mapping[str, object]) -> None:
    """Writes an evaluation and the predictions for its sets, by name.

    - `predictions.jsonl`: a line per example with `set`, `id`, `text`, `gold`, `predicted`, `probability`.
    - `evaluation.json`: `evaluation`, which has an entry for each name under `sets`.
    - `answers-<set>.json` for questions: id -> text, the format of SQuAD's evaluation script; `/` becomes `-` or `%2F`.
    """
    safe = [name.replace("/", "-").strip("-.") for name in sets]
    for place, (name, predictions) in enumerate(sets.items()):
        ending = safe[place] if safe.count(safe[place]) == 1 else quote(name, safe="")
        for stem, text in predictions.files().items():
            write_atomically(folder / f"{stem}-{ending}.json", text)
    write_lines(folder / PREDICTIONS, ({"set": name, **row} for name in sets for row in sets[name].rows()))
    write_content(folder, evaluation)


def write_content(folder: Path, evaluation: Mapping[str, object]) -> None:
    """Writes `evaluation.json`."""
    write_atomically(folder / EVALUATION, json.dumps(evaluation, ensure_ascii=False))


def write_lines(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Writes a line of JSON for each row."""
    write_atomically(path, "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))
