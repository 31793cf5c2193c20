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
from iolaus.runner.report.curves import Chart, Curve, curves_of, loss_levels
from iolaus.runner.report.page import Cell, Tile
from iolaus.runner.report.runs import EXECUTION, Run, load_run
from iolaus.runner.report.single import save
from iolaus.runner.report.summary import validation_set
from iolaus.runner.report.svg import colour_class, legend

MAX_SETTINGS = 12
"""Settings that have a column where the runs do not say which they were started with."""


class Goal(NamedTuple):
    """The figure that runs are ranked by."""

    key: str
    title: str
    larger_is_better: bool


class Entry(NamedTuple):
    """A run on the page: the settings that tell it from the others, and the colour it shares with its seeds."""

    run: Run
    settings: dict[str, str]
    colour: int

    @property
    def group(self) -> str:
        """What it has in common with the runs that differ from it in the seed alone."""
        return _named({name: value for name, value in self.settings.items() if name != "seed"}) or "all"

    @property
    def label(self) -> str:
        """What tells it from the other runs."""
        return _named(self.settings) or self.run.path.name


def write_comparison(folder: Path, runs: list[Path], name: str = "comparison.html") -> Path:
    """Writes the page `name` into `folder`: these runs side by side; returns its path.

    Raises:
        FileNotFoundError: a run folder is not there.
        ValueError: no run is given, or a folder is not that of a run.
        OSError: the page cannot be written.
    """
    text = comparison_page([load_run(Path(run)) for run in runs], Path(folder))
    return save(Path(folder) / name, text)


def comparison_page(runs: list[Run], folder: Path) -> str:
    """The page as text, with links that hold for a page in `folder`."""
    if not runs:
        raise ValueError("there is no run to compare: name at least one run folder")
    goal, shown = goal_of(runs), entries(runs)
    finished = sum(run.state == "done" for run in runs)
    where = {str(run.path.parent) for run in runs}
    names = {entry.colour: entry.group if "seed" in entry.settings else entry.label for entry in shown}
    facts = [f"{finished} of {len(runs)} done", *(where if len(where) == 1 else ())]
    return page.page(
        f"{len(runs)} runs compared",
        [
            page.header("Iolaus comparison", f"{len(runs)} runs", facts),
            _best(shown, best_run(runs, goal), goal),
            page.section("Runs", _table(shown, goal, folder)),
            page.section("Over seeds", _seeds(shown, goal)),
            page.section("Curves", page.charts(_charts(shown), f'<div class="shared">{legend(names)}</div>')),
        ],
    )


def entries(runs: list[Run]) -> list[Entry]:
    """The runs with the settings in which they differ: those named when they were started, else any."""
    named = list(
        dict.fromkeys(name for run in runs for name in run.overrides if not name.startswith(EXECUTION))
    )
    if not named:
        every = dict.fromkeys(name for run in runs for name in run.settings if not name.startswith(EXECUTION))
        named = [name for name in every if len({str(run.settings.get(name)) for run in runs}) > 1]

    def value(run: Run, name: str) -> str:
        return run.overrides.get(name, str(run.settings.get(name, "default")))

    differing = [name for name in named if len({value(run, name) for run in runs}) > 1][:MAX_SETTINGS]
    plain = [Entry(run, {name: value(run, name) for name in differing}, 0) for run in runs]
    if "seed" not in differing:
        return [entry._replace(colour=i) for i, entry in enumerate(plain)]
    groups = list(dict.fromkeys(entry.group for entry in plain))
    return [entry._replace(colour=groups.index(entry.group)) for entry in plain]


def goal_of(runs: list[Run]) -> Goal:
    """What ranks the runs: the objective they noted, else the first validation loss, else the training loss.

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


def figures_of(runs: list[Run], goal: Goal) -> dict[int, float]:
    """The figure that ranks the runs, by the positions of those that have one."""
    found = {i: value for i, run in enumerate(runs) if (value := run.final(goal.key)) is not None}
    return {i: value for i, value in found.items() if math.isfinite(value)}


def best_run(runs: list[Run], goal: Goal) -> int | None:
    """The position of the run with the best figure; None where no run has one."""
    found = figures_of(runs, goal)
    best = max if goal.larger_is_better else min
    return best(found, key=found.__getitem__) if found else None


def _best(shown: list[Entry], best: int | None, goal: Goal) -> str:
    if best is None:
        return '<p class="problem">No run has logged a loss yet.</p>'
    values = figures_of([entry.run for entry in shown], goal).values()
    run = shown[best].run
    tiles = [
        Tile("Best run", shown[best].label, run.name),
        Tile(goal.title.capitalize(), page.number(run.final(goal.key)), "of the best run"),
        Tile("From best to worst", page.number(max(values) - min(values)), f"over {len(values)} runs"),
    ]
    return page.tiles(tiles) + page.command(run.command, "The command of the best run")


def columns_of(shown: list[Entry], goal: Goal) -> list[str]:
    """The figures that some of the runs have: the one they are ranked by, validation, training loss and speed."""
    keys = dict.fromkeys(key for entry in shown for key in [*entry.run.metrics, *entry.run.results])
    baselines = ("/unigram_entropy", "/tokens_per_byte")
    figures = [key for key in keys if key.startswith("val/") and not key.endswith(baselines)]
    columns = dict.fromkeys([goal.key, *figures, "train/loss", "perf/tokens_per_second"])
    return [key for key in columns if any(entry.run.final(key) is not None for entry in shown)]


def comparison_table(runs: list[Run]) -> tuple[list[str], list[list[Any]], int | None]:
    """Heads, a row of values for each run (None where it has none), and which row is the best."""
    if not runs:
        raise ValueError("there is no run to compare: name at least one run folder")
    goal, shown = goal_of(runs), entries(runs)
    columns = columns_of(shown, goal)
    has_notes = any(run.note for run in runs)
    heads = ["run", *shown[0].settings, "state", "step", *columns, *(["note"] if has_notes else [])]
    rows = []
    for run, settings, _ in shown:
        figures = [run.final(key) for key in columns]
        note = [run.note] if has_notes else []
        rows.append([run.name, *settings.values(), run.state, run.step, *figures, *note])
    return heads, rows, best_run(runs, goal)


def _table(shown: list[Entry], goal: Goal, folder: Path) -> str:
    keys, rows, best = comparison_table([entry.run for entry in shown])
    heads = {key: title.lower() for key, title in titles_of(columns_of(shown, goal)).items()}
    heads[goal.key] = goal.title
    for row, (run, _, colour) in zip(rows, shown, strict=True):
        swatch = f'<span class="swatch {colour_class(colour)}"></span>'
        target = run.path / "report.html"  # its own page, else its folder
        address = relpath(target if target.exists() else run.path, folder)
        row[0] = Cell("", html=f'{swatch}<a href="{escape(address)}">{escape(run.path.name)}</a>')
    return page.run_table([heads.get(key, key) for key in keys], rows, best)


def _seeds(shown: list[Entry], goal: Goal) -> str:
    """Mean and deviation over the runs that differ in their seed alone; nothing where no two do."""
    groups: dict[str, list[float]] = {}
    for i, value in figures_of([entry.run for entry in shown], goal).items():
        groups.setdefault(shown[i].group, []).append(value)
    if "seed" not in shown[0].settings or all(len(values) < 2 for values in groups.values()):
        return ""
    rows: list[page.Row] = []
    for group, values in groups.items():
        deviation = statistics.stdev(values) if len(values) > 1 else None
        rows.append([group, len(values), statistics.mean(values), deviation, min(values), max(values)])
    heads = ["runs", "seeds", f"mean {goal.title}", "standard deviation", "least", "greatest"]
    return page.sortable_table(heads, rows)


def _charts(shown: list[Entry]) -> list[Chart]:
    """Losses and the like of all runs over each other; runs that differ in their seed alone share a colour."""
    keys = dict.fromkeys(key for entry in shown for key in entry.run.metrics)
    wanted = [key for key in keys if key.startswith("val/")]
    wanted += [key for key in ("train/loss", "perf/tokens_per_second", "optim/grad_norm") if key in keys]
    titles = titles_of(keys)
    # what the losses of all runs are held against; runs with other vocabularies or texts share no level
    first, *others = [loss_levels(entry.run.results) for entry in shown if entry.run.results] or [{}]
    shared = {name: v for name, v in first.items() if all(other.get(name) == v for other in others)}
    charts, points = list[Chart](), max(100, 3000 // len(shown))
    for key in wanted:
        curves, unit = [], "" if key.startswith("val/") else "smoothed"
        for i, (run, _, colour) in enumerate(shown):
            if key in run.metrics:
                drawn = curves_of("", run.metrics[key], colour, smoothed=bool(unit), points=points)[-1]
                curves.append(replace(drawn, label=shown[i].label, run=i))
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
    several = len({words[1] for words in parts.values() if words[0] == "val" and len(words) == 3}) > 1

    def title(words: list[str]) -> str:
        if words[0] == "val" and len(words) == 3:
            return f"Validation {words[2]}" + (f", {words[1]}" if several else "")
        if words[0] == "train":
            return f"Training {words[-1]}"
        return words[-1].replace("grad norm", "gradient norm").capitalize()

    return {key: title(words) for key, words in parts.items()}


def _named(settings: dict[str, str]) -> str:
    return ", ".join(f"{name.rsplit('.', 1)[-1]}={value}" for name, value in settings.items())
