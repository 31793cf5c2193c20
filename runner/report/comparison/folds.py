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
    joined: dict[str, float]
    """The metrics of all predictions together; empty if a fold is missing."""

    def rows(self) -> Iterator[PredictionRow]:
        """Yields the test rows of `predictions.jsonl` of all folds, each with its `fold`."""
        for fold, run in self.runs.items():
            with (run.path / PREDICTIONS).open(encoding="utf-8") as lines:
                rows = (row for row in map(json.loads, lines) if row.get("set") == TEST)
                yield from ({"fold": fold, **row} for row in rows)


def joined_folds(compared: Comparison) -> list[Joined]:
    """Returns the folds of each setting and seed; empty if runs have no folds."""
    groups: dict[tuple[int, int | None], dict[int, Run]] = {}
    own = compared.differences
    for i, (run, seed, fold) in enumerate(zip(compared.runs, own.seeds, own.folds, strict=True)):
        if fold is not None:
            found = groups.setdefault((compared.setting_of[i], seed), {})
            if run.state == "done" and evaluated_sets(run.path).get(TEST):
                found.setdefault(fold, run)
    return [_joined(compared, *key, runs) for key, runs in groups.items()]


def _joined(compared: Comparison, setting: int, seed: int | None, runs: dict[int, Run]) -> Joined:
    runs = dict(sorted(runs.items()))
    first = compared.runs[compared.settings[setting].runs[0]]
    folds = int(first.settings.get(FOLDS) or first.override_values.get(FOLDS) or 0)
    missing = [fold for fold in range(1, folds + 1) if fold not in runs]
    entries = [evaluated_sets(run.path)[TEST] for run in runs.values()]
    names = dict.fromkeys(name for entry in entries for name in entry["metrics"])
    metrics = {n: [e["metrics"][n] for e in entries if e["metrics"].get(n) is not None] for n in names}
    found = Joined(setting, seed, runs, missing, metrics, {})
    if missing or not entries:
        return found
    from tiryns.runner.evaluation.joined import measured_rows  # imports torch, which most pages do without

    labels = entries[0].get("labels") or [row["label"] for row in entries[0].get("per_class") or []]
    return found._replace(joined=measured_rows(entries[0].get("kind", ""), list(found.rows()), labels))


def folds_table(compared: Comparison, joined: list[Joined]) -> Cells:
    """Returns heads, and a row per setting, seed and metric: its mean over folds, and its value for all predictions."""
    heads = ["setting", "seed", "folds", "figure", "mean of folds", "standard deviation", "joined"]
    rows, monitored = list[list[Any]](), compared.goal.key.rpartition("/")[2]
    for each in joined:
        label = compared.settings[each.setting].label
        for name, values in sorted(each.metrics.items(), key=lambda metric: metric[0] != monitored):
            seed = "" if each.seed is None else str(each.seed)
            figures = [*spread_of(values)[:2], each.joined.get(name)]
            rows.append([label, seed, len(each.runs), in_words(name), *figures])
    first = 0 if len(compared.settings) > 1 else 1  # one setting needs no name
    return heads[first:], [row[first:] for row in rows]


def lacking(compared: Comparison, joined: list[Joined]) -> list[str]:
    """Returns a sentence for each setting and seed that lacks folds."""
    return [
        f"Not joined: {compared.settings[each.setting].label}, seed {each.seed} has no finished run of fold "
        f"{', '.join(map(str, each.missing))}."
        for each in joined
        if each.missing
    ]


def write_folds(folder: Path, compared: Comparison, joined: list[Joined]) -> None:
    """Writes `folds.json`, and `predictions.jsonl` with every example once for each setting and seed that is complete."""
    rows = [
        {"setting": compared.settings[each.setting].label, "seed": each.seed, **row}
        for each in joined
        if not each.missing
        for row in each.rows()
    ]
    (folder / PREDICTIONS).unlink(missing_ok=True)
    if rows:
        write_lines(folder / PREDICTIONS, rows)
    numbers = dict.fromkeys(each.setting for each in joined)
    settings = [_setting(compared, number, joined) for number in numbers]
    content = {"figure": compared.goal.key, "settings": settings}
    write_atomically(folder / FILE, json.dumps(content, indent=1, ensure_ascii=False))


def _setting(compared: Comparison, number: int, joined: list[Joined]) -> dict[str, object]:
    own = compared.settings[number]
    return {
        "setting": own.label,
        "values": own.values,
        "runs": len(own.figures),
        **own.spread._asdict(),
        "seeds": [
            {
                "seed": each.seed,
                "runs": {str(fold): run.path.name for fold, run in each.runs.items()},
                "missing": each.missing,
                "metrics": {
                    name: {**spread_of(values)._asdict(), "folds": values}
                    for name, values in each.metrics.items()
                },
                "joined": None if each.missing else each.joined,
            }
            for each in joined
            if each.setting == number
        ],
    }
