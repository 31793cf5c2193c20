"""Turns metrics into the charts of a page: their curves smoothed and thinned out."""

import math
import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.report.summary import bits_level, validation_set
from tiryns.runner.run.metrics_file import Series

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_POINTS = 1000
"""Points of one curve on a page; of a longer one the least and greatest value of each stretch are drawn."""

BEYOND = 1e100
"""Values of this size are drawn as gaps: no axis can show them beside others."""

MAX_OTHER_CHARTS = 12
"""Charts for other metrics; the names of the rest stand under the last chart."""

KNOWN: dict[str, tuple[str, str, bool]] = {
    "perf/tokens_per_second": ("Throughput", "real tokens per second", True),
    "optim/grad_norm": ("Gradient norm", "before clipping", False),
    "perf/fill": ("Fill", "real tokens per token place", False),
}
"""Metrics with a smoothed chart of their own: its title, its unit, and whether it begins at 0."""


@dataclass(frozen=True)
class Curve:
    """A line of a chart: `faint` behind its smoothed version, with `dots` at its points, of a `run` of a comparison.

    A `band` around it has a least and a greatest value for each point.
    """

    label: str
    steps: Ints | Floats
    values: Floats
    colour: int
    faint: bool = False
    dots: bool = False
    run: int = 0
    band: tuple[Floats, Floats] | None = None


class Span(NamedTuple):
    """A stretch of the axis across with a name: the steps (first, last] of a phase."""

    name: str
    first: int
    last: int


@dataclass(frozen=True)
class Chart:
    """Curves over the steps, or over another count, and levels to compare them with, by their names.

    `spans` are stretches of the steps, drawn behind the curves. With `ticks`, the values at places on the axis across, it
    is not zoomed.
    """

    title: str
    unit: str
    curves: list[Curve]
    levels: dict[str, float] = field(default_factory=dict)
    from_zero: bool = False
    wide: bool = False
    note: str = ""
    has_legend: bool = True
    across: str = "step"
    ticks: dict[float, float] = field(default_factory=dict)
    spans: tuple[Span, ...] = ()
    highest: float | None = None
    """The greatest value that there can be, beyond which the axis does not go."""


def thin_out(steps: Ints, values: Floats, max_points: int) -> tuple[Ints, Floats]:
    """At most about `max_points` of the points [N]: both ends, and the extremes of each stretch, or one nan of a gap."""
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
    """Running means of values [N] over about a fiftieth of them, less at the steep start; nan stays nan."""
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
    """The curve of one metric; with `smoothed`, where there are many points, a smoothed curve over a faint one."""
    order = np.argsort(series.steps, kind="stable")
    steps, values = series.steps[order], series.values[order]
    values = np.where(np.abs(values) < BEYOND, values, np.nan)
    curve = Curve(label, *thin_out(steps, values, points), colour, dots=len(steps) <= 40)
    if not smoothed or len(steps) <= 100:
        return [curve]
    above = Curve(f"{label}, smoothed", *thin_out(steps, smooth(values), points // 2), colour)
    return [replace(curve, faint=True), above]


def run_charts(metrics: dict[str, Series], results: dict[str, float]) -> list[Chart]:
    """The charts of one run: loss, learning rate, speed and gradient norm first, then all others."""
    left = {key: series for key, series in metrics.items() if key not in ("train/epoch", "epoch")}
    found = [*_loss(left, results), *_by_source(left), *_rates(left)]
    found += [_one(left, key, *known) for key, known in KNOWN.items() if key in left]
    found += _validation(left, results)
    found += [_one(left, key, key) for key in list(left)[:MAX_OTHER_CHARTS]]
    if left:
        names = ", ".join(list(left)[:8]) + (f" and {len(left) - 8} more" if len(left) > 8 else "")
        found[-1] = replace(found[-1], note=f"Not drawn, but in metrics.csv: {names}.")
    return [replace(chart, note=f"{chart.note} {_gap(chart.curves)}".strip()) for chart in found]


def _loss(left: dict[str, Series], results: dict[str, float]) -> list[Chart]:
    sets = {key: name for key in left if (name := validation_set(key)) is not None}
    curves = curves_of("training", left.pop("train/loss"), 0, smoothed=True) if "train/loss" in left else []
    for colour, (key, name) in enumerate(sets.items(), start=1):
        curves += curves_of(of_set("validation", name, sets), left.pop(key), colour)
    levels = loss_levels(results)
    return [Chart("Loss", "nats per token" if levels else "", curves, levels, wide=True)] if curves else []


def _by_source(left: dict[str, Series]) -> list[Chart]:
    """The training losses of a mixture's sources."""
    keys = [key for key in left if key.startswith("train/loss/")]
    named = [(key.removeprefix("train/loss/"), left.pop(key)) for key in keys]
    curves = [c for i, one in enumerate(named, 1) for c in curves_of(*one, i, smoothed=True)]
    return [Chart("Training loss", "by source", curves)] if curves else []


def of_set(what: str, name: str, sets: Collection[str]) -> str:
    """A label, with the name of the validation set where there are several `sets`."""
    return f"{what}, {name}" if len(sets) > 1 else what


def loss_levels(results: dict[str, float]) -> dict[str, float]:
    """Levels to compare losses with: guessing, ln(vocabulary), and each validation set's unigram entropy."""
    entropies = ((re.fullmatch("val/(.+)/unigram_entropy", key), value) for key, value in results.items())
    unigram = {key[1]: value for key, value in entropies if key}
    levels = {"ln(vocabulary)": results.get("uniform_entropy", math.nan)}
    levels |= {of_set("unigram entropy", name, unigram): value for name, value in unigram.items()}
    return {label: value for label, value in levels.items() if math.isfinite(value)}


def _rates(left: dict[str, Series]) -> list[Chart]:
    """One curve per learning rate; parameter groups of the same rate share a curve."""
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
    curves = curves_of(label, left.pop(key), 0, smoothed=key in KNOWN)
    return Chart(title, unit, curves, from_zero=from_zero, highest=1.0 if key == "perf/fill" else None)


def _validation(left: dict[str, Series], results: dict[str, float]) -> list[Chart]:
    """One chart per figure of the validation sets, a curve per set."""
    keys_of: dict[str, dict[str, str]] = {}
    for key in left:
        if len(parts := key.split("/")) == 3 and parts[0] == "val":
            keys_of.setdefault(parts[2], {})[parts[1]] = key
    charts = []
    for figure, keys in keys_of.items():
        curves = [c for i, name in enumerate(keys, 1) for c in curves_of(name, left.pop(keys[name]), i)]
        found = {name: v for name, key in keys.items() if (v := bits_level(key, results)) is not None}
        levels = {of_set("unigram entropy", name, found): v for name, v in found.items()}
        charts.append(Chart(f"Validation {in_words(figure)}", "", curves, levels))
    return charts


def in_words(figure: str) -> str:
    """The name of a figure in its usual spelling.

    Example:
        >>> in_words("macro_f1"), in_words("mrr_at_10"), in_words("mcc"), in_words("exact_match")
        ('macro F1', 'MRR@10', 'MCC', 'exact match')
    """
    words = re.sub(r" at (\d+)\b", r"@\1", figure.replace("_", " "))
    return re.sub(r"\b(?:f1|mcc|mrr|ndcg)\b", lambda found: found[0].upper(), words)


def is_single(chart: Chart) -> bool:
    """Whether no curve of the chart has more than one point."""
    return all(len(curve.steps) == 1 for curve in chart.curves)


def _gap(curves: list[Curve]) -> str:
    """Names the first step at which a curve has no number."""
    for curve in curves:
        bad = curve.steps[~np.isfinite(curve.values)]
        if len(bad):
            later = " and later" if len(bad) > 1 else ""
            return f"{curve.label}: not a number at step {bad[0]:,}{later}."
    return ""
