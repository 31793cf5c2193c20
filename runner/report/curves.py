"""Turns metrics into the charts of a page, with smoothed curves of fewer points."""

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.report.summary import bits_level, validation_set
from tiryns.runner.run.metrics_file import Series

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_POINTS = 1000
"""A curve has about this many points at most. A longer one is drawn by the lowest and highest value of each stretch."""

BEYOND = 1e100
"""Values of this magnitude or more are drawn as gaps: no axis can show them together with others."""

MAX_OTHER_CHARTS = 12
"""The maximum number of charts for other metrics. The names of further metrics are listed under the last chart."""

KNOWN: dict[str, tuple[str, str, bool]] = {
    "perf/tokens_per_second": ("Throughput", "real tokens per second", True),
    "optim/grad_norm": ("Gradient norm", "before clipping", False),
    "perf/fill": ("Fill", "real tokens per token place", False),
}
"""Metrics with a smoothed chart of their own: its title, its unit, and whether its axis begins at 0."""

LOSS, SOURCES, RATES = "Loss", "Training loss", "Learning rate"
UNITS = {LOSS: "", SOURCES: "by source", RATES: "per parameter group"}
"""The titles of charts of several metrics, in their order, with their units."""

CONSTANTS = {"the most frequent label": "majority", "guessing": "chance", "one answer to all": "constant"}
"""The names of levels that need no model, each with the word that begins its metric, such as `majority_accuracy`."""


@dataclass(frozen=True)
class Curve:
    """A line of a chart. It is `faint` if a smoothed line lies over it. If `dots`, its points are marked.

    `band` has a least and a greatest value for each point. If `loose`, only points are drawn. `run` is the run's index.
    """

    label: str
    steps: Ints | Floats
    values: Floats
    colour: int
    faint: bool = False
    dots: bool = False
    run: int = 0
    band: tuple[Floats, Floats] | None = None
    loose: bool = False


@dataclass(frozen=True)
class Chart:
    """Curves over the steps, or over the count that `across` names; `levels` has lines by name, to compare them with.

    `spans` are named stretches (first, last] of the steps, drawn behind the curves. `ticks` has values by position on the
    horizontal axis; a chart with `ticks` cannot be zoomed.
    """

    title: str
    unit: str
    curves: list[Curve]
    levels: dict[str, float] = field(default_factory=dict)
    from_zero: bool = False
    wide: bool = False
    note: str = ""
    across: str = "step"
    ticks: dict[float, float] = field(default_factory=dict)
    spans: tuple[tuple[str, int, int], ...] = ()
    highest: float | None = None
    """The largest possible value, beyond which the axis does not go."""


def thin_out(steps: Ints, values: Floats, max_points: int) -> tuple[Ints, Floats]:
    """Keeps about `max_points` of N points: the ends, and each stretch's lowest and highest point, or nan for a gap."""
    if len(steps) <= max_points:
        return steps, values
    indices = {0, len(steps) - 1}
    for stretch in np.array_split(np.arange(len(steps)), max(1, max_points // 2)):
        finite = stretch[np.isfinite(values[stretch])]
        if len(finite):
            indices |= {int(finite[values[finite].argmin()]), int(finite[values[finite].argmax()])}
        else:
            indices.add(int(stretch[0]))
    order = np.array(sorted(indices))
    return steps[order], values[order]


def smooth(values: Floats) -> Floats:
    """Returns running means of values [N], each over about N / 50 values, fewer at the steep start; nan stays nan."""
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
    """Returns a metric's curve. If `smoothed`, a curve of over 100 points is faint, with a smoothed curve over it."""
    order = np.argsort(series.steps, kind="stable")
    steps, values = series.steps[order], series.values[order]
    values = np.where(np.abs(values) < BEYOND, values, np.nan)
    curve = Curve(label, *thin_out(steps, values, points), colour, dots=len(steps) <= 40)
    if not smoothed or len(steps) <= 100:
        return [curve]
    above = Curve(f"{label}, smoothed", *thin_out(steps, smooth(values), points // 2), colour)
    return [replace(curve, faint=True), above]


def run_charts(metrics: dict[str, Series], results: dict[str, float]) -> list[Chart]:
    """Returns the charts of one run: loss, learning rate, speed and gradient norm first, then all others."""
    sets = [name for key in metrics if (name := validation_set(key)) is not None]
    known_titles = (*UNITS, *(title for title, *_ in KNOWN.values()))
    places: dict[str, dict[str, str]] = {title: {} for title in known_titles}
    for key in metrics:
        if key not in ("train/epoch", "epoch"):
            title, name = _place(key, sets)
            places.setdefault(title, {})[key] = name
    titles = sorted((title for title in places if places[title]), key=lambda title: title in metrics)
    others = [title for title in titles if title in metrics]  # charts of their own, named by their keys
    rest = others[MAX_OTHER_CHARTS:]
    charts = [_chart(title, places[title], metrics, results) for title in titles if title not in rest]
    if rest:
        names = ", ".join(rest[:8]) + (f" and {len(rest) - 8} more" if len(rest) > 8 else "")
        charts[-1] = replace(charts[-1], note=f"Not drawn, but in metrics.csv: {names}.")
    return [replace(chart, note=f"{chart.note} {_gap(chart.curves)}".strip()) for chart in charts]


def _place(key: str, sets: Collection[str]) -> tuple[str, str]:
    """Returns the title of a metric's chart, and the name of its curve there."""
    if (name := validation_set(key)) is not None:
        return LOSS, of_set("validation", name, sets)
    match key.split("/"):
        case ["train", "loss"]:
            return LOSS, "training"
        case ["train", "loss", *source]:
            return SOURCES, "/".join(source)
        case ["optim", "lr", *group]:
            return RATES, "/".join(group)
        case ["val", name, metric]:
            return f"Validation {in_words(metric)}", name
    return KNOWN[key][0] if key in KNOWN else key, key.rsplit("/", 1)[-1].replace("_", " ")


def _chart(title: str, names: dict[str, str], metrics: dict[str, Series], results: dict[str, float]) -> Chart:
    """Returns the chart of the metrics in `names` (names of curves by key); equal learning rates share a curve."""
    groups: list[tuple[list[str], str]] = []
    for key, name in sorted(names.items(), key=lambda item: item[0] != "train/loss"):
        same = [own for own, other in groups if title == RATES and _are_equal(metrics[key], metrics[other])]
        if same:
            same[0].append(name)
        else:
            groups.append(([name], key))
    first = groups[0][1]
    after = 1 if first.startswith(("val/", "train/loss/")) else 0  # blue is that of the training loss
    curves = [
        curve
        for colour, (own, key) in enumerate(groups, after)
        for curve in curves_of(
            ", ".join(own), metrics[key], colour, key.startswith("train/loss") or key in KNOWN
        )
    ]
    levels = levels_of([*names], results)
    _, unit, from_zero = KNOWN.get(first, ("", UNITS.get(title, ""), title == RATES))
    unit = "nats per token" if title == LOSS and levels else unit
    highest = 1.0 if first == "perf/fill" else None
    return Chart(title, unit, curves, levels, from_zero, wide=title == LOSS, highest=highest)


def _are_equal(one: Series, other: Series) -> bool:
    return np.array_equal(one.steps, other.steps) and np.allclose(one.values, other.values, equal_nan=True)


def of_set(what: str, name: str, sets: Collection[str]) -> str:
    """Returns a label, with the name of the set if there are several `sets`."""
    return f"{what}, {name}" if len(sets) > 1 else what


def levels_of(keys: Collection[str], results: dict[str, float]) -> dict[str, float]:
    """Returns the levels of these metrics that need no model: guessing, the most frequent label, unigram entropies."""
    ends = ("val/", "/unigram_entropy")
    sets = [k.removeprefix(ends[0]).removesuffix(ends[1]) for k in results if k.endswith(ends[1])]
    levels: dict[str, float | None] = {}
    for key in keys:
        prefix, _, metric = key.rpartition("/")
        if metric == "loss":
            levels["ln(vocabulary)"] = results.get("uniform_entropy")
            names = (name for name in sets if prefix in ("train", f"val/{name}"))
            levels |= {of_set("unigram entropy", n, sets): results[f"val/{n}/unigram_entropy"] for n in names}
        else:
            name = prefix.removeprefix("val/")
            values = {level: results.get(f"{prefix}/{start}_{metric}") for level, start in CONSTANTS.items()}
            values["unigram entropy"] = bits_level(key, results)
            levels |= {of_set(level, name, keys): value for level, value in values.items()}
    return {level: value for level, value in levels.items() if value is not None and math.isfinite(value)}


def log2_curve(label: str, values: Mapping[float, float], colour: int, loose: bool = False) -> Curve:
    """Returns the curve of values over log2 of their keys, for `over_powers`; `loose` points have no line."""
    return Curve(label, np.log2([*values]), np.array([*values.values()]), colour, dots=not loose, loose=loose)


def over_powers(title: str, unit: str, across: str, curves: list[Curve], **how: Any) -> Chart:
    """Returns a chart with a horizontal axis in powers of 2, and a tick at each point."""
    places = sorted({at for curve in curves for at in curve.steps.tolist()})
    ticks = {at: float(f"{2**at:.6g}") for at in places}
    return Chart(title, unit, curves, across=across, ticks=ticks, **how)


def in_words(figure: str) -> str:
    """Returns the name of a metric in its usual spelling.

    Example:
        >>> in_words("macro_f1"), in_words("mrr_at_10"), in_words("mcc"), in_words("exact_match")
        ('macro F1', 'MRR@10', 'MCC', 'exact match')
    """
    words = re.sub(r" at (\d+)\b", r"@\1", figure.replace("_", " "))
    return re.sub(r"\b(?:f1|mcc|mrr|ndcg)\b", lambda match: match[0].upper(), words)


def is_constant(chart: Chart) -> bool:
    """Whether all points of the chart have one value, such as the fill of packed rows."""
    return len({float(value) for curve in chart.curves for value in curve.values}) == 1


def is_single(chart: Chart) -> bool:
    """Whether no curve of the chart has more than one point."""
    return all(len(curve.steps) == 1 for curve in chart.curves)


def _gap(curves: list[Curve]) -> str:
    """Returns a note on the first step at which a curve is not a number; empty if there is none."""
    for curve in curves:
        bad = curve.steps[~np.isfinite(curve.values)]
        if len(bad):
            later = " and later" if len(bad) > 1 else ""
            return f"{curve.label}: not a number at step {bad[0]:,}{later}."
    return ""
