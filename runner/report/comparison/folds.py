"""Joins the predictions of all folds of each setting and seed, computes their metrics, and writes both to files."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tiryns.conf.data.labelled import FOLD_SET
from tiryns.runner.evaluation.files import PREDICTIONS, PredictionRow, write_lines
from tiryns.runner.evaluation.statistics.student import spread_of
from tiryns.runner.report.comparison.differences import FOLDS
from tiryns.runner.report.comparison.settings import Cells, Comparison
from tiryns.runner.report.curves import in_words
from tiryns.runner.report.evaluation import evaluated_sets
from tiryns.runner.run.files import write_atomically
from tiryns.runner.run.folder import Run

TEST = f"test/{FOLD_SET}"

FILE = "folds.json"
"""File in the folder of a sweep, next to `PREDICTIONS`: the metrics of each setting and seed."""


class Joined(NamedTuple):
    """The folds of one setting and seed."""

    setting: int
    """The number of the setting in the comparison."""
    seed: int | None
    runs: dict[int, Run]
    """The finished run of each fold, by fold."""
    missing: list[int]
    """Folds without a finished run."""
    metrics: dict[str, list[float]]
    """The values of each metric, in the order of the folds."""
    joint_metrics: dict[str, float]
    """The metrics of all predictions together; empty if a fold is missing."""

    def rows(self) -> Iterator[PredictionRow]:
        """Yields the test rows of `predictions.jsonl` of all folds, each with its `fold`."""
        for fold, run in self.runs.items():
            with (run.path / PREDICTIONS).open(encoding="utf-8") as lines:
                rows = (row for row in map(json.loads, lines) if row.get("set") == TEST)
                yield from ({"fold": fold, **row} for row in rows)


def joined_folds(comparison: Comparison) -> list[Joined]:
    """Returns the folds of each setting and seed; empty if runs have no folds."""
    groups: dict[tuple[int, int | None], dict[int, Run]] = {}
    of_runs = comparison.differences
    for i, (run, seed, fold) in enumerate(zip(comparison.runs, of_runs.seeds, of_runs.folds, strict=True)):
        if fold is not None:
            fold_runs = groups.setdefault((comparison.setting_of[i], seed), {})
            if run.state == "done" and evaluated_sets(run.path).get(TEST):
                fold_runs.setdefault(fold, run)
    return [_join(comparison, *key, runs) for key, runs in groups.items()]


def _join(comparison: Comparison, setting: int, seed: int | None, runs: dict[int, Run]) -> Joined:
    runs = dict(sorted(runs.items()))
    first = comparison.runs[comparison.settings[setting].runs[0]]
    folds = int(first.settings.get(FOLDS) or first.override_values.get(FOLDS) or 0)
    missing = [fold for fold in range(1, folds + 1) if fold not in runs]
    entries = [evaluated_sets(run.path)[TEST] for run in runs.values()]
    names = dict.fromkeys(name for entry in entries for name in entry["metrics"])
    metrics = {n: [e["metrics"][n] for e in entries if e["metrics"].get(n) is not None] for n in names}
    group = Joined(setting, seed, runs, missing, metrics, {})
    if missing or not entries:
        return group
    from tiryns.runner.evaluation.joined import measured_rows  # imports torch, which most pages do without

    labels = entries[0].get("labels") or [row["label"] for row in entries[0].get("per_class") or []]
    return group._replace(joint_metrics=measured_rows(entries[0].get("kind", ""), list(group.rows()), labels))


def folds_table(comparison: Comparison, folds: list[Joined]) -> Cells:
    """Returns heads, and a row per setting, seed and metric: its mean over folds, and its value for all predictions."""
    heads = ["setting", "seed", "folds", "figure", "mean of folds", "standard deviation", "joined"]
    rows, goal_name = list[list[Any]](), comparison.goal.key.rpartition("/")[2]
    for each in folds:
        label = comparison.settings[each.setting].label
        for name, values in sorted(each.metrics.items(), key=lambda metric: metric[0] != goal_name):
            seed = "" if each.seed is None else str(each.seed)
            figures = [*spread_of(values)[:2], each.joint_metrics.get(name)]
            rows.append([label, seed, len(each.runs), in_words(name), *figures])
    first = 0 if len(comparison.settings) > 1 else 1  # one setting needs no name
    return heads[first:], [row[first:] for row in rows]


def lacking(comparison: Comparison, folds: list[Joined]) -> list[str]:
    """Returns a sentence for each setting and seed that lacks folds."""
    return [
        f"Not joined: {comparison.settings[each.setting].label}, seed {each.seed} has no finished run of fold "
        f"{', '.join(map(str, each.missing))}."
        for each in folds
        if each.missing
    ]


def write_folds(folder: Path, comparison: Comparison, folds: list[Joined]) -> None:
    """Writes `folds.json`, and `predictions.jsonl` with every example once for each setting and seed that is complete."""
    rows = [
        {"setting": comparison.settings[each.setting].label, "seed": each.seed, **row}
        for each in folds
        if not each.missing
        for row in each.rows()
    ]
    (folder / PREDICTIONS).unlink(missing_ok=True)
    if rows:
        write_lines(folder / PREDICTIONS, rows)
    numbers = dict.fromkeys(each.setting for each in folds)
    settings = [_setting(comparison, number, folds) for number in numbers]
    content = {"figure": comparison.goal.key, "settings": settings}
    write_atomically(folder / FILE, json.dumps(content, indent=1, ensure_ascii=False))


def _setting(comparison: Comparison, number: int, folds: list[Joined]) -> dict[str, object]:
    setting = comparison.settings[number]
    return {
        "setting": setting.label,
        "values": setting.values,
        "runs": len(setting.figures),
        **setting.spread._asdict(),
        "seeds": [
            {
                "seed": each.seed,
                "runs": {str(fold): run.path.name for fold, run in each.runs.items()},
                "missing": each.missing,
                "metrics": {
                    name: {**spread_of(values)._asdict(), "folds": values}
                    for name, values in each.metrics.items()
                },
                "joined": None if each.missing else each.joint_metrics,
            }
            for each in folds
            if each.setting == number
        ],
    }
