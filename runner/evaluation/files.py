"""Predictions and tables as files of the run folder."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iolaus.runner.evaluation.predictions import Predictions
from iolaus.runner.run.files import write_atomically


def write_predictions(
    folder: Path, sets: Mapping[str, Predictions], metrics: Mapping[str, float], facts: Mapping[str, Any]
) -> None:
    """Writes the predictions for each set, by name (`val/validation`, `test/test`).

    - `predictions.jsonl`: a line per example with `set`, `id`, `text`, `gold`, `predicted`, `probability`.
    - `evaluation.json`: `facts`, and under `sets` for each name `examples`, `metrics`, and the tables of the task.
    - `answers-<set>.json` for questions: id -> text, the format of SQuAD's evaluation script.
    """
    lines: list[str] = []
    evaluation: dict[str, Any] = {**facts, "sets": {}}
    for name, predictions in sets.items():
        rows = list(predictions.rows())
        lines += [json.dumps({"set": name, **row}, ensure_ascii=False) for row in rows]
        prefix = f"{name}/"
        evaluation["sets"][name] = {
            "examples": len(rows),
            "metrics": {k.removeprefix(prefix): v for k, v in metrics.items() if k.startswith(prefix)},
            **predictions.tables(),
        }
        for stem, text in predictions.files().items():
            write_atomically(folder / f"{stem}-{name.replace('/', '-')}.json", text)
    write_atomically(folder / "predictions.jsonl", "".join(f"{line}\n" for line in lines))
    write_atomically(folder / "evaluation.json", json.dumps(evaluation, ensure_ascii=False))
