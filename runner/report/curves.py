"""From metrics to curves fit to be drawn: smoothed, thinned out, gathered into charts."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from iolaus.runner.report.summary import bits_level, validation_set
from iolaus.runner.run.metrics_file import Series

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_POINTS = 1000
"""Points of one curve on a page; a longer one is drawn by the least and greatest value of each stretch."""

BEYOND = 1e100
"""Numbers of this size have blown up: no axis holds them beside others, so they are gaps."""

MAX_OTHER_CHARTS = 12
"""Charts for metrics of no known kind; the rest is named under them."""

KNOWN: dict[str, tuple[str, str, bool]] = {
    "perf/tokens_per_second": ("Throughput", "real tokens per second", True),
    "optim/grad_norm": ("Gradient norm", "before clipping", False),
    "perf/fill": ("Fill", "real tokens per token place", False),
}
"""Metrics with a smoothed chart of their own: its title, its unit, and whether it begins at 0."""


@dataclass(frozen=True)
class Curve:
    """A line of a chart; `faint` is the raw one behind a smoothed one, `dots` marks every point.

    `run` tells the runs of a comparison apart where several share a colour.
    """

    label: str
    steps: Ints
    values: Floats
    colour: int
    faint: bool = False
    dots: bool = False
    run: int = 0


@dataclass(frozen=True)
class Chart:
    """Curves over the steps with what they are measured in, and levels to hold them against."""

    title: str
    unit: str
    curves: list[Curve]
    levels: dict[str, float] = field(default_factory=dict)
    from_zero: bool = False
    wide: bool = False
    note: str = ""
    has_legend: bool = True


def thin_out(steps: Ints, values: Floats, max_points: int) -> tuple[Ints, Floats]:
    """At most about `max_points` of the points [N]: both ends, and the extremes of each of many stretches.

    No spike is lost. A stretch without any number keeps one nan, so that the gap shows.
    """
    if len(steps) <= max_points:
        return steps, values
    kept = {0, len(steps) - 1}
    for stretch in np.array_split(np.arange(len(steps)), max(1, max_points // 2)):
        finite = stretch[np.isfinite(values[stretch])]
        if len(finite):
            kept |= {int(finite[values[finite].argmin()]), int(finite[values[finite].argmax()])}
        else:
            kept.add(int(stretch[0]))
    order = np.array(sorted(kept))
    return steps[order], values[order]


def smooth(values: Floats) -> Floats:
    """The mean of the numbers around each value [N], over about a fiftieth of them; nan stays nan.

    The window narrows towards the start, where curves are steep, so that the smooth curve does not lag.
    """
    positions = np.arange(len(values))
    reach = max(1, len(values) // 100)
    first = positions - np.minimum(positions, reach)
    last = np.minimum(positions + np.minimum(positions + reach // 4, reach) + 1, len(values))
    finite = np.isfinite(values)
    sums = np.concatenate([[0.0], np.cumsum(np.where(finite, values, 0.0))])
    counts = np.concatenate([[0], np.cumsum(finite)])
    means = (sums[last] - sums[first]) / np.maximum(1, counts[last] - counts[first])
    return np.where(finite, means, np.nan)


def curves_of(
    label: str, series: Series, colour: int, smoothed: bool = False, points: int = MAX_POINTS
) -> list[Curve]:
    """The curve of one metric; `smoothed` puts a smooth one over a faint raw one where there are many points."""
    order = np.argsort(series.steps, kind="stable")
    steps, values = series.steps[order], series.values[order]
    values = np.where(np.abs(values) < BEYOND, values, np.nan)
    few = len(steps) <= 40
    if not smoothed or len(steps) <= 100:
        return [Curve(label, *thin_out(steps, values, points), colour, dots=few)]
    faint = Curve(label, *thin_out(steps, values, points), colour, faint=True)
    return [faint, Curve(f"{label}, smoothed", *thin_out(steps, smooth(values), points // 2), colour)]


def run_charts(metrics: dict[str, Series], results: dict[str, float]) -> list[Chart]:
    """The charts of one run: loss first, then schedule, speed and gradient, then whatever else was logged."""
    left = {key: series for key, series in metrics.items() if key not in ("train/epoch", "epoch")}
    found = [*_loss(left, results), *_rates(left)]
    found += [_one(left, key, *known) for key, known in KNOWN.items() if key in left]
    found += _validation(left, results)
    found += [_one(left, key, key) for key in list(left)[:MAX_OTHER_CHARTS]]
    if left and found:
        found[-1] = _with_note(found[-1], f"Not drawn, but in metrics.csv: {_names(left)}.")
    return [_with_note(chart, _gaps(chart.curves)) for chart in found]


def _loss(left: dict[str, Series], results: dict[str, float]) -> list[Chart]:
    sets = {key: name for key in left if (name := validation_set(key)) is not None}
    curves = curves_of("training", left.pop("train/loss"), 0, smoothed=True) if "train/loss" in left else []
    for colour, (key, name) in enumerate(sets.items(), start=1):
        label = f"validation, {name}" if len(sets) > 1 else "validation"
        curves += curves_of(label, left.pop(key), colour)
    levels = loss_levels(results)
    return [Chart("Loss", "nats per token" if levels else "", curves, levels, wide=True)] if curves else []


def loss_levels(results: dict[str, float]) -> dict[str, float]:
    """What a loss is held against: guessing, ln(vocabulary), and each validation set's unigram entropy."""
    entropies = ((re.fullmatch("val/(.+)/unigram_entropy", key), value) for key, value in results.items())
    unigram = {key[1]: value for key, value in entropies if key}
    levels = {"ln(vocabulary)": results.get("uniform_entropy", math.nan)}
    for name, value in unigram.items():
        levels["unigram entropy" + (f", {name}" if len(unigram) > 1 else "")] = value
    return {label: value for label, value in levels.items() if math.isfinite(value)}


def _rates(left: dict[str, Series]) -> list[Chart]:
    """One curve per learning rate; groups that share theirs share the curve."""
    groups: list[tuple[list[str], Series]] = []
    for key in [key for key in left if key.startswith("optim/lr/")]:
        series, name = left.pop(key), key.removeprefix("optim/lr/")
        for names, other in groups:
            same_steps = np.array_equal(series.steps, other.steps)
            if same_steps and np.allclose(series.values, other.values, equal_nan=True):
                names.append(name)
                break
        else:
            groups.append(([name], series))
    curves = [c for i, (names, series) in enumerate(groups) for c in curves_of(", ".join(names), series, i)]
    return [Chart("Learning rate", "per parameter group", curves, from_zero=True)] if curves else []


def _one(left: dict[str, Series], key: str, title: str, unit: str = "", from_zero: bool = False) -> Chart:
    label = key.rsplit("/", 1)[-1].replace("_", " ")
    return Chart(title, unit, curves_of(label, left.pop(key), 0, smoothed=key in KNOWN), from_zero=from_zero)


def _validation(left: dict[str, Series], results: dict[str, float]) -> list[Chart]:
    """One chart per figure that validation sets have beside the loss, a curve per set."""
    keys = [key for key in left if key.startswith("val/") and key.count("/") == 2]
    charts = []
    for figure in dict.fromkeys(key.split("/")[2] for key in keys):
        of_figure = [key for key in keys if key.split("/")[2] == figure]
        curves = [c for i, k in enumerate(of_figure, 1) for c in curves_of(k.split("/")[1], left.pop(k), i)]
        found = {k.split("/")[1]: v for k in of_figure if (v := bits_level(k, results)) is not None}
        levels = {"unigram entropy" + (f", {s}" if len(found) > 1 else ""): v for s, v in found.items()}
        charts.append(Chart(f"Validation {figure.replace('_', ' ')}", "", curves, levels))
    return charts


def _gaps(curves: Iterable[Curve]) -> str:
    for curve in curves:
        bad = curve.steps[~np.isfinite(curve.values)]
        if len(bad):
            later = " and later" if len(bad) > 1 else ""
            return f"{curve.label}: not a number at step {bad[0]:,}{later}."
    return ""


def _with_note(chart: Chart, note: str) -> Chart:
    return replace(chart, note=f"{chart.note} {note}".strip())


def _names(keys: Iterable[str], most: int = 8) -> str:
    names: Sequence[str] = list(keys)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
