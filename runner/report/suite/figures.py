"""Sums up the runs of a suite: means over seeds, deviations, Student's intervals, and the mean over tasks.

`suite.json` in the sweep's folder has what `sum_up` returns; its keys are documented in `docs/suites.md`.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tiryns.conf.values import suggest
from tiryns.runner.evaluation.statistics.student import spread_of, t_quantile
from tiryns.runner.run.files import read_json

SUITE = "suite.json"
"""File in the folder of a suite: its tasks, metrics and runs."""

LEVEL = 0.95

Content = dict[str, Any]
"""The content of `suite.json`, or a part of it."""


def read_suite_results(folder: Path) -> Content:
    """Returns the content of `suite.json`; empty if the file is missing."""
    return read_json(folder / SUITE, {})


def measure(results: Mapping[str, float], names: Sequence[str], stages: Sequence[str]) -> tuple[float, str]:
    """Returns the mean of the named metrics in a run's results, and their set: `test`, `validation` or empty.

    A name is a whole key, or the last part of keys such as `test/easy/accuracy`. For a last part the mean is taken over
    all sets of one stage: the first of the `stages` (`test`, `val`) that has the metric.

    Raises:
        ValueError: a metric is missing, or is not a finite number.

    Example:
        >>> measure({"val/a/f1": 0.5, "val/b/f1": 0.75, "test/test/f1": 0.25}, ["f1"], ["val"])
        (0.625, 'validation')
    """
    values, sets = [], set()
    for name in names:
        of_name = [key for key in results if key.count("/") == 2 and key.endswith(f"/{name}")]
        of_stages = [[key for key in of_name if key.startswith(f"{stage}/")] for stage in stages]
        keys = [name] if name in results else next(filter(None, of_stages), [])
        value = statistics.mean(results[key] for key in keys) if keys else math.nan
        if not keys:
            near = suggest(name, [key.rpartition("/")[2] for key in results])
            raise ValueError(f"it has no figure {name!r}; it has: {', '.join(results)}{near}")
        if not math.isfinite(value):
            raise ValueError(f"its figure {name} is not a number")
        values.append(value)
        sets.add({"test": "test", "val": "validation"}.get(keys[0].partition("/")[0], ""))
    return statistics.mean(values), sets.pop() if len(sets) == 1 else "validation" if sets else ""


def mean_over_tasks(tasks: Sequence[Sequence[float]]) -> Content:
    """Returns the mean of the tasks' means, from the values of each task's seeds.

    `deviation` is the standard deviation that the mean has with one seed per task. The interval covers seeds only: tasks
    count as independent, each with its own variance (degrees of freedom by Welch and Satterthwaite 1946, rounded down).
    """
    means = [statistics.mean(figures) for figures in tasks]
    summary: Content = {"mean": statistics.mean(means), "deviation": None, "interval": None}
    if all(len(figures) > 1 for figures in tasks):
        variances = [statistics.variance(figures) for figures in tasks]
        errors = [variance / len(figures) for variance, figures in zip(variances, tasks, strict=True)]
        spread = sum(e**2 / (len(figures) - 1) for e, figures in zip(errors, tasks, strict=True))
        freedom = int(sum(errors) ** 2 / spread + 1e-9) if spread else 1
        width = t_quantile(max(1, freedom), 1 - LEVEL) * math.sqrt(sum(errors)) / len(tasks)
        summary["deviation"] = math.sqrt(sum(variances)) / len(tasks)
        summary["interval"] = [summary["mean"] - width, summary["mean"] + width]
    return summary


def sum_up(suite: Content, models: Sequence[str], cells: Mapping[tuple[str, str], Content]) -> Content:
    """Returns the content of `suite.json`: the entries of `suite`, a row for each model, and the best of each column.

    `cells` are by model and task. A cell has `figures` by seed (None if no setting has all seeds); other entries stay.
    """
    rows: list[Content] = []
    for model in models:
        of_tasks = {}
        for task in suite["tasks"]:
            cell = cells[model, task]
            figures = list((cell.get("figures") or {}).values())
            of_tasks[task] = {**spread_of(figures)._asdict(), **cell}
        summary = {}
        for name, tasks in suite["summary"].items():
            task_figures = [list((of_tasks[task].get("figures") or {}).values()) for task in tasks]
            lacking = [task for task, figures in zip(tasks, task_figures, strict=True) if not figures]
            mean = spread_of([])._asdict() if lacking else mean_over_tasks(task_figures)
            summary[name] = {**mean, "lacking": lacking}
        rows.append({"model": model, "tasks": of_tasks, "summary": summary})
    complete = all(cell["mean"] is not None for row in rows for cell in row["tasks"].values())
    return {**suite, "complete": complete, "models": rows, "best": _best(suite, rows)}


def setting_text(setting: Mapping[str, str] | None) -> str:
    """Returns a setting of a grid as overrides; empty for None."""
    return " ".join(f"{key}={value}" for key, value in (setting or {}).items())


def cells_of(row: Content) -> dict[str, Content]:
    """Returns the cells of a model's row by column: the means first, then the tasks."""
    return {**row["summary"], **row["tasks"]}


def _best(suite: Content, rows: Sequence[Content]) -> dict[str, Content]:
    """Returns for a column of several means the best model, and those whose intervals overlap its own or are unknown."""
    if len(rows) < 2:
        return {}
    smaller = {task for task, entry in suite["tasks"].items() if not entry["larger_is_better"]}
    smaller |= {name for name, tasks in suite["summary"].items() if smaller & {*tasks}}
    best = {}
    for column in cells_of(rows[0]):
        have = [(row["model"], cell) for row in rows if (cell := cells_of(row)[column])["mean"] is not None]
        if len(have) > 1:
            sign = 1 if column in smaller else -1
            first, *others = sorted(have, key=lambda pair: sign * pair[1]["mean"])
            unclear = [name for name, cell in others if not _lie_apart(first[1], cell)]
            best[column] = {"model": first[0], "not_apart_from": unclear}
    return best


def _lie_apart(one: Content, other: Content) -> bool:
    """Whether two intervals share no value; False if one is unknown, as with one seed."""
    if one["interval"] is None or other["interval"] is None:
        return False
    return bool(one["interval"][0] > other["interval"][1] or one["interval"][1] < other["interval"][0])
