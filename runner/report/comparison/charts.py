"""Draws the curves of runs over each other, and the metric against numeric settings."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from tiryns.runner.report.comparison.comparable import titles_of
from tiryns.runner.report.comparison.differences import label_of
from tiryns.runner.report.comparison.settings import Comparison, Setting
from tiryns.runner.report.curves import Chart, Curve, Floats, curves_of, in_words, is_single, levels_of
from tiryns.runner.report.phases import shared_phases, with_phases
from tiryns.runner.run.metrics_file import Series

MAX_SCATTERS = 6
"""If several numeric settings vary, each gets a chart, up to this number of charts."""

MAX_CURVES = 12
"""The maximum number of curves in a chart. If there are more runs, the means of the best settings are drawn instead."""

LOG_FROM = 8.0
"""The axis of a setting is logarithmic if its largest value is at least this many times its smallest value."""


def draws_means(comparison: Comparison) -> bool:
    """Returns whether the means of settings are drawn instead of each run."""
    return len(comparison.runs) > MAX_CURVES


def colours_of(comparison: Comparison) -> dict[int, int]:
    """Returns the colour number of each drawn setting: of all settings, or of the best ones if means are drawn."""
    numbers = list(range(len(comparison.settings)))
    if draws_means(comparison):
        order = [i for kind in comparison.kinds for i in comparison.order(kind)]
        numbers = (order or numbers)[:MAX_CURVES]
    return {number: colour for colour, number in enumerate(numbers)}


def curve_charts(compared: Comparison) -> list[Chart]:
    """Returns charts over the steps with a curve per run or per best setting; runs of one setting share a colour."""
    keys = dict.fromkeys(key for run in compared.runs for key in run.series)
    metric_keys = [key for key in keys if key.startswith("val/")]
    metric_keys += [key for key in ("train/loss", "perf/tokens_per_second", "optim/grad_norm") if key in keys]
    titles, charts, colours = titles_of(keys), list[Chart](), colours_of(compared)
    for key in metric_keys:
        is_smooth = not key.startswith("val/")
        lines = _of_settings(compared, key, colours) if draws_means(compared) else _of_runs(compared, key)
        points = max(100, 3000 // max(1, len(lines)))
        curves = []
        for run, colour, label, series, room in lines:
            curve = replace(curves_of("", series, colour, is_smooth, points)[-1], label=label, run=run)
            if room is not None and len(room) == len(curve.values):
                curve = replace(curve, band=(curve.values - room, curve.values + room))
            curves.append(curve)
        if curves:
            levels, note = _levels(compared, key, curves)
            unit, wide = "smoothed" if is_smooth else "", not charts
            charts.append(Chart(titles[key], unit, curves, levels, wide=wide, note=note))
    # what was measured once is in the table of runs
    return with_phases([chart for chart in charts if not is_single(chart)], shared_phases(compared.runs))


Line = tuple[int, int, str, Series, Floats | None]
"""The position of a run, the number of its colour, a label, the points, and their deviations over seeds, or None."""


def _of_runs(comparison: Comparison, key: str) -> list[Line]:
    """Returns a line for each run; a branch begins at its last point in common with a parent that is drawn too."""
    folders = {run.path.resolve(): run for run in comparison.runs}
    lines = list[Line]()
    for i, run in enumerate(comparison.runs):
        if key in run.series:
            parent = folders.get(run.branch.parent) if run.branch else None
            series = run.series[key]
            if parent is not None and parent is not run and (before := parent.series.get(key)) is not None:
                count = min(len(series.steps), len(before.steps))
                same = (series.steps[:count] == before.steps[:count]) & np.isclose(
                    series.values[:count], before.values[:count], rtol=0, atol=0, equal_nan=True
                )
                start = max(0, (count if same.all() else int(same.argmin())) - 1)
                series = Series(series.steps[start:], series.values[start:], series.times[start:])
            # the settings in which it differs from the others, with its seed and its fold where these differ
            replicate = {name: str(numbers[i]) for name, numbers in comparison.differences.replicates.items()}
            label = label_of({**comparison.differences.short[i], **replicate}) or run.path.name
            lines.append((i, comparison.setting_of[i], label, series, None))
    return lines


def _of_settings(comparison: Comparison, key: str, colours: dict[int, int]) -> list[Line]:
    lines = list[Line]()
    for number, colour in colours.items():
        setting = comparison.settings[number]
        have = [s for i in setting.runs if (s := comparison.runs[i].series.get(key)) is not None]
        if have:
            lines.append((setting.runs[0], colour, setting.label, *_mean(have)))
    return lines


def _mean(several: Sequence[Series]) -> tuple[Series, Floats | None]:
    """Returns the mean at the shared steps, with standard deviations; the first series alone if no step is shared."""
    steps = reduce(np.intersect1d, [each.steps for each in several])
    if len(several) == 1 or not len(steps):
        return several[0], None
    last = [dict(zip(each.steps.tolist(), each.values.tolist(), strict=True)) for each in several]
    values = np.array([[each[step] for step in steps.tolist()] for each in last])
    return Series(steps, values.mean(0), np.zeros(len(steps))), values.std(0, ddof=1)


def _levels(comparison: Comparison, key: str, curves: Sequence[Curve]) -> tuple[dict[str, float], str]:
    """Returns each level that needs no model and is equal in all runs of a kind, and a note on levels out of view."""
    groups: dict[tuple[str, int], list[float]] = {}
    for setting in comparison.settings:
        for i in setting.runs:
            for name, value in levels_of([key], comparison.runs[i].results).items():
                groups.setdefault((name, setting.kind or 0), []).append(value)
    values = np.concatenate([curve.values[np.isfinite(curve.values)] for curve in curves])
    low, high = (values.min(), values.max()) if len(values) else (0.0, 0.0)
    several = len({kind for _, kind in groups}) > 1
    levels, off = {}, []
    for (name, kind), (first, *others) in groups.items():
        # Runs of other vocabularies have other levels, and share none
        if all(math.isclose(first, other, rel_tol=1e-6) for other in others):
            label = f"{name}, kind {kind + 1}" if several else name
            if low - (high - low) <= first <= high + (high - low):
                levels[label] = first
            else:
                off.append(f"{label} {first:.3f}")
    return levels, f"Not in view: {', '.join(off)}." if off else ""


def setting_charts(comparison: Comparison) -> list[Chart]:
    """Returns charts of the metric against each numeric setting that varies.

    If one numeric setting varies, its chart has means, a band of one standard deviation over seeds, and a line for each
    combination of the other settings. If several vary, each has a chart with a point for the mean of each setting.
    """
    settings = [each for each in comparison.settings if each.figures]
    names, title = comparison.differences.names, in_words(comparison.goal.title.capitalize())
    varying = [name for name in names if len({each.values[name] for each in settings}) > 1]
    numeric = {name: numbers for name in varying if (numbers := _numbers(settings, name))}
    if len(numeric) != 1:
        if len(settings) < 3 or len(comparison.kinds) > 1:
            return []
        return [
            Chart(title, f"by {name}", [line], across=name, ticks=_ticks(numbers))
            for name, numbers in list(numeric.items())[:MAX_SCATTERS]
            for means in [_line(f"{name}, means", settings, name, 0, _is_log(numbers))]
            for line in [replace(means, band=None, loose=True)]
        ]
    ((name, numbers),) = numeric.items()
    lines: dict[str, list[Setting]] = {}
    for i in comparison.order():
        each = comparison.settings[i]
        rest = label_of({n: v for n, v in each.short.items() if n != name})
        kind = f"kind {(each.kind or 0) + 1}" if len(comparison.kinds) > 1 else ""
        lines.setdefault(", ".join(filter(None, [rest, kind])), []).append(each)
    is_log = _is_log(numbers)
    curves = [_line(label or "mean", each, name, i, is_log) for i, (label, each) in enumerate(lines.items())]
    one = "one fold" if comparison.has_folds else "one seed"
    over = f"mean and standard deviation over {comparison.replicate_noun}" if comparison.has_seeds else one
    chart = Chart(
        title, f"by {name}, {over}", curves[:MAX_CURVES], wide=True,
        note=f"The best {MAX_CURVES} of {len(curves)} lines." if len(curves) > MAX_CURVES else "",
        across=name, ticks=_ticks(numbers),
    )  # fmt: skip
    return [chart]


def _is_log(numbers: list[float]) -> bool:
    return numbers[0] > 0 and numbers[-1] / numbers[0] >= LOG_FROM


def _ticks(numbers: list[float]) -> dict[float, float]:
    return {math.log10(number) if _is_log(numbers) else number: number for number in numbers}


def _numbers(settings: Sequence[Setting], name: str) -> list[float]:
    """Returns the values of a setting in ascending order; empty unless all are finite numbers."""
    try:
        numbers = sorted({float(each.values[name]) for each in settings})
    except ValueError:
        return []
    return numbers if all(map(math.isfinite, numbers)) else []


def _line(label: str, settings: Sequence[Setting], name: str, colour: int, is_log: bool) -> Curve:
    ordered_settings = sorted(settings, key=lambda each: float(each.values[name]))
    across: Floats = np.array([float(each.values[name]) for each in ordered_settings])
    means = np.array([each.spread.mean or 0.0 for each in ordered_settings])
    room = np.array([each.spread.deviation or 0.0 for each in ordered_settings])
    steps = np.log10(across) if is_log else across
    return Curve(label, steps, means, colour, dots=True, band=(means - room, means + room))
