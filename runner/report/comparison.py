"""A page that compares runs: the best one, a sortable table, means over seeds, curves over each other."""

import math
import statistics
from collections.abc import Iterable
from dataclasses import replace
from html import escape
from os.path import relpath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from iolaus.runner.report import page
from iolaus.runner.report.curves import Chart, Curve, curves_of, loss_levels, of_set
from iolaus.runner.report.page import Html, Tile
from iolaus.runner.report.runs import EXECUTION, Run, load_run
from iolaus.runner.report.single import save
from iolaus.runner.report.summary import validation_set
from iolaus.runner.report.svg import colour_class, legend

MAX_SETTINGS = 12
"""Settings that have a column."""


class Goal(NamedTuple):
    """The figure that runs are ranked by."""

    key: str
    title: str
    larger_is_better: bool


class Entry(NamedTuple):
    """A run on the page: the settings in which it differs from others, the figure that ranks it, and its colour."""

    run: Run
    settings: dict[str, str]
    figure: float | None
    colour: int

    @property
    def group(self) -> str:
        """The settings shared with the runs that differ from it in the seed alone."""
        return _named({name: value for name, value in self.settings.items() if name != "seed"}) or "all"

    @property
    def label(self) -> str:
        """The settings in which it differs from the other runs."""
        return _named(self.settings) or self.run.path.name


class Comparison:
    """Runs side by side, with the position of the best one and the keys of the figures in the table."""

    def __init__(self, runs: list[Run]) -> None:
        if not runs:
            raise ValueError("there is no run to compare: name at least one run folder")
        self.goal = goal_of(runs)
        self.entries = _entries(runs, self.goal)
        self.ranked = {i: e.figure for i, e in enumerate(self.entries) if e.figure is not None}
        best = max if self.goal.larger_is_better else min
        self.best = best(self.ranked, key=self.ranked.__getitem__, default=None)
        keys = [key for run in runs for key in [*run.metrics, *run.results] if key.startswith("val/")]
        figures = [key for key in keys if not key.endswith(("/unigram_entropy", "/tokens_per_byte"))]
        columns = dict.fromkeys([self.goal.key, *figures, "train/loss", "perf/tokens_per_second"])
        self.columns = [key for key in columns if any(run.final(key) is not None for run in runs)]

    def rows(self) -> tuple[list[str], list[list[Any]]]:
        """Heads, and a row of values for each run, None where it has none."""
        has_notes = any(entry.run.note for entry in self.entries)
        heads = ["run", *self.entries[0].settings, "state", "step", *self.columns, *["note"] * has_notes]
        rows = []
        for run, settings, *_ in self.entries:
            figures = [run.final(key) for key in self.columns]
            rows.append(
                [run.name, *settings.values(), run.state, run.step, *figures, *[run.note] * has_notes]
            )
        return heads, rows


def write_comparison(folder: Path, runs: list[Path], name: str = "comparison.html") -> Path:
    """Writes the page `name` into `folder`: these runs side by side; returns its path.

    Raises:
        FileNotFoundError: a run folder is not there.
        ValueError: no run is given, or a folder is not that of a run.
        OSError: the page cannot be written.
    """
    loaded = [load_run(Path(run)) for run in runs]
    compared = Comparison(loaded)
    finished = sum(run.state == "done" for run in loaded)
    parents = {str(run.path.parent) for run in loaded}
    facts = [f"{finished} of {len(runs)} done", *(parents if len(parents) == 1 else ())]
    names = {e.colour: e.group if "seed" in e.settings else e.label for e in compared.entries}
    charts = page.charts(_charts(compared.entries), f'<div class="shared">{legend(names)}</div>')
    body = [
        page.header("Iolaus comparison", f"{len(runs)} runs", facts),
        _best(compared),
        page.section("Runs", _table(compared, Path(folder))),
        page.section("Over seeds", _seeds(compared)),
        page.section("Curves", charts),
    ]
    return save(Path(folder) / name, page.page(f"{len(runs)} runs compared", body))


def comparison_table(runs: list[Run]) -> tuple[list[str], list[list[Any]], int | None]:
    """Heads, a row of values for each run (None where it has none), and the position of the best run."""
    compared = Comparison(runs)
    return *compared.rows(), compared.best


def goal_of(runs: list[Run]) -> Goal:
    """The figure to rank by: the objective in the runs' results, else the first validation loss or the training loss.

    Losses per token of different vocabularies cannot be compared; such runs are ranked by their bits per byte.
    """
    keys = list(dict.fromkeys(key for run in runs for key in [*run.metrics, *run.results]))
    titles = titles_of(keys)
    key = next((key for key in keys if validation_set(key) is not None), "train/loss")
    per_byte = f"{key.rpartition('/')[0]}/bits_per_byte"
    vocabularies = {run.results.get("uniform_entropy") for run in runs} - {None}
    if len(vocabularies) > 1 and all(run.final(per_byte) is not None for run in runs):
        return Goal(per_byte, titles[per_byte].lower(), False)
    if "objective" not in keys:
        return Goal(key, titles.get(key, "Training loss").lower(), False)
    larger = any(run.larger_is_better for run in runs)
    monitors = {run.monitor or key for run in runs}
    monitor = monitors.pop() if len(monitors) == 1 else "figure"
    return Goal("objective", f"best {titles_of([*keys, monitor])[monitor]}".lower(), larger)


def _entries(runs: list[Run], goal: Goal) -> list[Entry]:
    """The runs with the settings in which they differ: those of their commands, else any."""
    named = [name for run in runs for name in run.overrides if not name.startswith(EXECUTION)]
    if not named:
        named = [name for run in runs for name in run.settings if not name.startswith(EXECUTION)]
        named = [name for name in named if len({str(run.settings.get(name)) for run in runs}) > 1]

    def value(run: Run, name: str) -> str:
        return run.overrides.get(name, str(run.settings.get(name, "default")))

    names = [name for name in dict.fromkeys(named) if len({value(run, name) for run in runs}) > 1]
    shown, groups = [], dict[str, int]()
    for i, run in enumerate(runs):
        figure = run.final(goal.key)
        figure = None if figure is None or not math.isfinite(figure) else figure
        entry = Entry(run, {name: value(run, name) for name in names[:MAX_SETTINGS]}, figure, colour=i)
        if "seed" in entry.settings:
            entry = entry._replace(colour=groups.setdefault(entry.group, len(groups)))
        shown.append(entry)
    return shown


def _best(compared: Comparison) -> str:
    if compared.best is None:
        return '<p class="problem">No run has logged a loss yet.</p>'
    best, values = compared.entries[compared.best], compared.ranked.values()
    tiles = [
        Tile("Best run", best.label, best.run.name),
        Tile(compared.goal.title.capitalize(), page.number(best.figure), "of the best run"),
        Tile("From best to worst", page.number(max(values) - min(values)), f"over {len(values)} runs"),
    ]
    return page.tiles(tiles) + page.command(best.run.command, "The command of the best run")


def _table(compared: Comparison, folder: Path) -> str:
    """The table of runs: pointing at row i lights up the curves of run i."""
    keys, rows = compared.rows()
    heads = {key: title.lower() for key, title in titles_of(compared.columns).items()}
    heads[compared.goal.key] = compared.goal.title
    marks = []
    for i, (row, entry) in enumerate(zip(rows, compared.entries, strict=True)):
        swatch = f'<span class="swatch {colour_class(entry.colour)}"></span>'
        target = entry.run.path / "report.html"  # its own page, else its folder
        address = relpath(target if target.exists() else entry.run.path, folder)
        row[0] = Html(f'{swatch}<a href="{escape(address)}">{escape(entry.run.path.name)}</a>')
        marks.append(f' data-run="{i}"' + (' class="best"' if i == compared.best else ""))
    return page.table([heads.get(key, key) for key in keys], rows, marks)


def _seeds(compared: Comparison) -> str:
    """Mean and deviation over the runs that differ in their seed alone; nothing where no two do."""
    groups: dict[str, list[float]] = {}
    for i, value in compared.ranked.items():
        groups.setdefault(compared.entries[i].group, []).append(value)
    if "seed" not in compared.entries[0].settings or all(len(values) < 2 for values in groups.values()):
        return ""
    rows: list[page.Row] = []
    for group, values in groups.items():
        deviation = statistics.stdev(values) if len(values) > 1 else None
        rows.append([group, len(values), statistics.mean(values), deviation, min(values), max(values)])
    heads = ["runs", "seeds", f"mean {compared.goal.title}", "standard deviation", "least", "greatest"]
    return page.table(heads, rows)


def _charts(shown: list[Entry]) -> list[Chart]:
    """Curves of all runs over each other; runs that differ in their seed alone share a colour."""
    keys = dict.fromkeys(key for entry in shown for key in entry.run.metrics)
    wanted = [key for key in keys if key.startswith("val/")]
    wanted += [key for key in ("train/loss", "perf/tokens_per_second", "optim/grad_norm") if key in keys]
    titles = titles_of(keys)
    # Runs of other vocabularies or texts have other levels, and share none
    first, *others = [loss_levels(entry.run.results) for entry in shown if entry.run.results] or [{}]
    shared = {name: v for name, v in first.items() if all(other.get(name) == v for other in others)}
    charts, points = list[Chart](), max(100, 3000 // len(shown))
    for key in wanted:
        curves, unit = [], "" if key.startswith("val/") else "smoothed"
        for i, entry in enumerate(shown):
            if key in entry.run.metrics:
                series = entry.run.metrics[key]
                drawn = curves_of("", series, entry.colour, smoothed=bool(unit), points=points)[-1]
                curves.append(replace(drawn, label=entry.label, run=i))
        levels = _levels_within(curves, shared) if key.endswith("/loss") else {}
        charts.append(Chart(titles[key], unit, curves, levels, wide=not charts, has_legend=False))
    return charts


def _levels_within(curves: list[Curve], levels: dict[str, float]) -> dict[str, float]:
    """The levels that curves cross; others would only flatten the differences between runs."""
    values = np.concatenate([curve.values[np.isfinite(curve.values)] for curve in curves])
    return {name: v for name, v in levels.items() if len(values) and values.min() <= v <= values.max()}


def titles_of(keys: Iterable[str]) -> dict[str, str]:
    """Metrics' names in words, such as `Validation loss`; with the set's name where there are several sets."""
    parts = {key: key.replace("_", " ").split("/") for key in keys}
    sets = {words[1] for words in parts.values() if words[0] == "val" and len(words) == 3}

    def title(words: list[str]) -> str:
        if words[0] == "val" and len(words) == 3:
            return of_set(f"Validation {words[2]}", words[1], sets)
        if words[0] == "train":
            return f"Training {words[-1]}"
        return words[-1].replace("grad norm", "gradient norm").capitalize()

    return {key: title(words) for key, words in parts.items()}


def _named(settings: dict[str, str]) -> str:
    return ", ".join(f"{name.rsplit('.', 1)[-1]}={value}" for name, value in settings.items())
