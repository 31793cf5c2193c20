"""Run folders of folds as sweeps leave them, made without training."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tiryns.runner.evaluation.joined import measured_rows
from tiryns.runner.report.comparison.settings import Comparison
from tiryns.runner.run.folder import load_run

LABELS = ["a", "b", "c"]

Rows = Sequence[tuple[str, str, str]]
"""Examples: id, label, prediction."""


def compared(runs: Sequence[Path]) -> Comparison:
    return Comparison([load_run(run) for run in runs])


def make_fold(
    folder: Path, lr: float, seed: int, fold: int, rows: Rows, folds: int = 3, **inputs: Any
) -> Path:
    """A finished run of a fold with these predictions for it."""
    folder.mkdir(parents=True)
    words = [f"optimizer.lr={lr}", f"seed={seed}", f"data.folds={folds}", f"data.fold={fold}"]
    data = {"train": "rows.csv", "folds": folds, "fold": fold, "seed": 0, "tokenizer": None, "max_length": 64}
    (folder / "config.yaml").write_text(
        yaml.safe_dump({"seed": seed, "optimizer": {"lr": lr}, "data": {**data, **inputs}})
    )
    (folder / "overrides.json").write_text(json.dumps(words))
    (folder / "command.txt").write_text(f"tiryns {' '.join(words)}")
    lines = [
        {"set": "test/fold", "id": i, "text": i, "gold": g, "predicted": p, "probability": 1.0}
        for i, g, p in rows
    ]
    lines.append({**lines[0], "set": "val/validation", "id": "of the validation"})
    (folder / "predictions.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    metrics = measured_rows("classification", lines[:-1], LABELS)
    entry = {"kind": "classification", "examples": len(rows), "metrics": metrics, "labels": LABELS}
    (folder / "evaluation.json").write_text(
        json.dumps({"task": "classification", "sets": {"test/fold": entry}})
    )
    results = {f"test/fold/{name}": value for name, value in metrics.items()}
    results |= {"objective": 1.0, "val/validation/accuracy": 1.0}
    status = {
        "state": "done", "monitor": "val/validation/accuracy", "mode": "max", "step": 9, "results": results,
    }  # fmt: skip
    (folder / "status.json").write_text(json.dumps(status))
    sets = {"validation": f"v{fold}{seed}", "fold": f"f{fold}"}
    manifest = {
        "inputs": {"evaluation": sets, "tokenizer": f"t{fold}", "files": {"train": {"rows.csv": "d"}}}
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def make_folds(folder: Path, seeds: Sequence[int] = (1, 2), folds: int = 3) -> list[Path]:
    """A sweep over two rates, seeds and folds of 12 examples; the lower rate is right more often."""
    runs: list[Path] = []
    for lr in (0.1, 0.2):
        for seed in seeds:
            for fold in range(1, folds + 1):
                members = range(fold, 13, folds)
                rows = [(f"{i}", label(i), predicted(i, lr, seed)) for i in members]
                runs.append(make_fold(folder / f"{len(runs)}", lr, seed, fold, rows, folds))
    return runs


def label(example: int) -> str:
    """The label of an example."""
    return LABELS[example * 7 % 11 % 3]


def predicted(example: int, lr: float, seed: int) -> str:
    """The label, but for some examples that depend on rate and seed."""
    wrong = (example * 5 + seed) % (4 if lr < 0.15 else 2) == 0
    return "a" if wrong else label(example)
