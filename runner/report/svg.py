"""Draws a chart as HTML: lines in an SVG that stretches with the page, labels beside it that do not."""

import json
import math
from collections.abc import Iterable, Mapping
from html import escape
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tiryns.runner.report.curves import Chart, Curve, Floats, Ints

SCALE = 10_000
"""Width and height of a drawing in its own units; fine enough to be zoomed into."""

NUM_COLOURS = 8
"""Colours of the page's palette; more curves than that repeat them, dashed."""


def element(tag: str, inside: str, kind: str = "") -> str:
    """An HTML element of the class `kind`; nothing where it would be empty."""
    marks = f' class="{kind}"' if kind else ""
    return f"<{tag}{marks}>{inside}</{tag}>" if inside else ""


class Frame(NamedTuple):
    """The range of steps and values that is drawn; on a log scale of the values' decimal logarithms."""

    first: float
    last: float
    low: float
    high: float
    is_log: bool

    def across(self, steps: Ints | Floats) -> Ints:
        """Steps to drawing units."""
        return np.round((steps - self.first) / (self.last - self.first) * SCALE).astype(np.int64)

    def down(self, values: Floats) -> Floats:
        """Values to drawing units from the top; nan where there is no number."""
        if self.is_log:
            values = np.log10(np.where(values > 0, values, np.nan))
        finite = np.where(np.isfinite(values), values, np.nan)
        return np.round((self.high - finite) / (self.high - self.low) * SCALE)

    def percent_down(self, value: float) -> float:
        """A value as a share of the height, from the top."""
        return float(self.down(np.array(value))) / SCALE * 100


def span_of(charts: Iterable[Chart]) -> tuple[float, float]:
    """First and last step of these charts; 0 is the first where the steps begin within a fifth of them."""
    steps = np.concatenate([curve.steps for chart in charts for curve in chart.curves])
    first, last = float(steps.min()), float(steps.max())
    first = 0.0 if 0 < first < 0.2 * last else first
    return (first, last) if first < last else (first - 1, last + 1)


def frame_of(chart: Chart, span: tuple[float, float]) -> Frame:
    """The frame that holds every value of a chart over a span of steps, with a little room above and below."""
    bands = [end for curve in chart.curves for end in curve.band or ()]
    values = np.concatenate([*(curve.values for curve in chart.curves), *bands, list(chart.levels.values())])
    values = values[np.isfinite(values)] if np.isfinite(values).any() else np.array([0.0, 1.0])
    is_log = not chart.from_zero and values.min() > 0 and np.ptp(np.log10(values)) > 2
    if is_log:
        values = np.log10(values)
    low, high = float(values.min()), float(values.max())
    size = max(abs(low), abs(high))
    room = (high - low) * 0.06 if high - low > 1e-9 * size else size * 0.1 or 1.0
    low, high = low - room, high + room
    if chart.from_zero and low > -2 * room and values.min() >= 0:
        low = 0.0
    return Frame(*span, low, min(high, chart.highest), bool(is_log))


def draw(chart: Chart, span: tuple[float, float]) -> str:
    """The chart as a `figure` element, with its numbers inside for the read-out."""
    frame = frame_of(chart, span)
    level_lines, level_names = _levels(chart, frame)
    span_areas, span_names = _spans(chart, frame)
    paths = "".join(_path(curve, frame) for curve in sorted(chart.curves, key=lambda c: not c.faint))
    rows = [(value, frame.percent_down(value)) for value in value_ticks(frame)]
    names_across = chart.ticks or {step: label(step) for step in step_ticks(frame)}
    columns = [
        (text, (at - frame.first) / (frame.last - frame.first) * 100) for at, text in names_across.items()
    ]
    grid = "".join(f'<path d="M0 {round(y * SCALE / 100)}h{SCALE}"/>' for _, y in rows)
    unit = " · ".join(part for part in (chart.unit, "log scale" if frame.is_log else "") if part)
    names = {curve.colour: curve.label for curve in chart.curves if not curve.faint}
    # The title names a single curve already
    has_legend = chart.has_legend and (len(names) > 1 or any(curve.faint for curve in chart.curves))
    return (
        f'<figure class="chart{" wide" if chart.wide else ""}"><figcaption><h3>{escape(chart.title)}</h3>'
        f'<span class="unit">{escape(unit)}</span>'
        '<button class="reset" type="button" hidden>whole run</button>'
        f"</figcaption>{legend(names) if has_legend else ''}"
        f'<div class="plot" tabindex="0" role="img" aria-label="{escape(_spoken(chart))}">'
        f'<div class="ys">{"".join(_tick(label(v), "top", y) for v, y in rows)}</div>'
        f'<div class="area"><svg viewBox="0 0 {SCALE} {SCALE}" preserveAspectRatio="none" aria-hidden="true">'
        f'{span_areas}<g class="grid">{grid}</g>{level_lines}{paths}</svg>{level_names}{span_names}'
        '<div class="cursor" hidden></div><div class="band" hidden></div><div class="tip" hidden></div></div>'
        f'<div class="xs">{"".join(_tick(text, "left", x) for text, x in _apart(columns))}</div>'
        '<span class="xname">'
        + ("" if chart.ticks else escape(chart.across))  # a setting's name is too long for this corner
        + "</span></div>"
        + element("p", escape(chart.note), "note")
        + f'<script type="application/json">{_numbers(chart, frame)}</script></figure>'
    )


def _apart(columns: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Those names that have room beside each other."""
    shown: list[tuple[str, float]] = []
    for text, percent in columns:
        if not shown or percent - shown[-1][1] >= 6:
            shown.append((text, percent))
    return shown


def ticks(low: float, high: float, about: int) -> list[float]:
    """Round numbers in [low, high], about as many as asked for."""
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    return [i * step for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def step_ticks(frame: Frame) -> list[float]:
    """Whole steps to label."""
    return [step for step in ticks(frame.first, frame.last, 5) if step == int(step) and step >= 0]


def value_ticks(frame: Frame) -> list[float]:
    """Values to label: round numbers, on a log scale round powers."""
    if not frame.is_log:
        return ticks(frame.low, frame.high, 5)
    wide = frame.high - frame.low >= 2.5
    every = max(1, math.floor((frame.high - frame.low) / 6))
    decades = range(math.floor(frame.low), math.ceil(frame.high) + 1)[::every]
    marks = [(factor, decade) for decade in decades for factor in ((1,) if wide else (1, 2, 5))]
    inside = [(f, d) for f, d in marks if frame.low <= d + math.log10(f) <= frame.high]
    return [factor * 10.0**decade for factor, decade in inside if decade > -300]


def label(value: float) -> str:
    """A number for an axis: `12,000`, `1.5M`, `0.25`, `2e-4`."""
    size = abs(value)
    if size >= 1e10:
        return f"{value:.1e}".replace("e+", "e")
    if size >= 1e6:
        return f"{value / 1e6:.4g}M"
    if size >= 1000:
        return f"{value:,.0f}"
    if size and size < 0.0095:
        digits, exponent = f"{value:.2e}".split("e")
        return f"{float(digits):g}e{int(exponent)}"
    return f"{value:.4g}"


def colour_class(colour: int) -> str:
    """The classes of the n-th colour: `c3`, and dashed once the palette is used up."""
    dash = f" dash{min(colour // NUM_COLOURS, 3)}" if colour >= NUM_COLOURS else ""
    return f"c{colour % NUM_COLOURS}{dash}"


def legend(names: Mapping[int, str]) -> str:
    """The names of the colours."""
    keys = (
        f'<li class="key {colour_class(colour)}" data-group="{colour}">{escape(name)}</li>'
        for colour, name in names.items()
    )
    return element("ul", "".join(keys), "legend")


def bars(shares: Mapping[str, float], marks: Mapping[str, float]) -> str:
    """Shares between 0 and 1 as bars one below the other, with a line at the mark of each that has one."""
    rows = ""
    for name, share in shares.items():
        at = f'<path class="level" d="M{marks[name] * 100:.2f} 0v10"/>' if name in marks else ""
        drawn = f'<rect width="{share * 100:.2f}" height="10"/>{at}'
        bar = f'<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">{drawn}</svg>'
        rows += f"<dt>{escape(name)}</dt><dd>{bar}<span>{share:.1%}</span></dd>"
    return element("dl", rows, "bars")


def _path(curve: Curve, frame: Frame) -> str:
    """A curve as an SVG path, with gaps where there is no number."""
    across = frame.across(curve.steps).tolist()
    points = zip(across, frame.down(curve.values).tolist(), strict=True)
    line, dots = "", ""
    for (x_before, y_before), (x, y) in pairwise([(0, math.nan), *points]):
        if not math.isnan(y):
            dots += f"M{x} {y:.0f}h0"
            gap = math.isnan(y_before)
            line += f"M{x} {y:.0f}" if gap else f"l{x - x_before} {y - y_before:.0f}"
    classes = colour_class(curve.colour) + (" faint" if curve.faint else "")
    classes += f'" data-group="{curve.colour}" data-run="{curve.run}'
    drawn = f'<path class="line {classes}" d="{line}"/>'
    if curve.band is not None:
        low, high = (frame.down(end).tolist() for end in curve.band)
        around = [*zip(across, low, strict=True), *zip(across[::-1], high[::-1], strict=True)]
        corners = "L".join(f"{x} {y:.0f}" for x, y in around)
        drawn = f'<path class="spread {classes}" d="M{corners}z"/>{drawn}'
    return drawn + (f'<path class="dots {classes}" d="{dots}"/>' if curve.dots else "")


def _levels(chart: Chart, frame: Frame) -> tuple[str, str]:
    """The lines of a chart's levels, and their names: above the line, or below where the next one is close above."""
    lines = names = ""
    above = -math.inf
    for name, value in sorted(chart.levels.items(), key=lambda level: -level[1]):
        top = frame.percent_down(value)
        lines += f'<path class="level" d="M0 {round(top * SCALE / 100)}h{SCALE}"/>' if top == top else ""
        marks = f'class="level-name{" below" if top - above < 8 else ""}" data-y="{_short(value)}"'
        names += f'<span {marks} style="top:{top:.2f}%">{escape(name)} {value:.3f}</span>'
        above = top
    return lines, names


def _spans(chart: Chart, frame: Frame) -> tuple[str, str]:
    """The areas behind every other stretch of a chart that lies in view, and the names of all of them at its top."""
    areas = names = ""
    for number, (name, first, last) in enumerate(chart.spans):
        left, right = (min(max(step, frame.first), frame.last) for step in (first, last))
        if left >= right:
            continue
        start, end = frame.across(np.array([left, right])).tolist()
        if number % 2:
            areas += f'<rect class="phase" x="{start}" width="{end - start}" height="{SCALE}"/>'
        place = f"left:{start * 100 / SCALE:.2f}%;width:{(end - start) * 100 / SCALE:.2f}%"
        shown = escape(name)
        names += f'<span class="phase-name" data-x="{left:g},{right:g}" title="{shown}" style="{place}">{shown}</span>'
    return areas, names


def _tick(text: str, side: str, percent: float) -> str:
    edge = " end" if side == "left" and percent > 96 else ""
    return f'<span class="tick{edge}" style="{side}:{percent:.2f}%">{text}</span>'


def _spoken(chart: Chart) -> str:
    """The chart in words, for screen readers: each curve's first and last value."""
    shown = [(c.label, c.values[np.isfinite(c.values)]) for c in chart.curves if not c.faint]
    ends = [f"{name} from {values[0]:.4g} to {values[-1]:.4g}" for name, values in shown if len(values)]
    over = chart.across if chart.ticks else f"the {chart.across}s"
    return f"{chart.title} over {over}: " + "; ".join(ends)


def _numbers(chart: Chart, frame: Frame) -> str:
    """The values as JSON, for the page's script; `<` is escaped so that no text can end the element."""
    curves = []
    for curve in chart.curves:
        y = [_short(v) if math.isfinite(v) else None for v in curve.values.tolist()]
        shown = {"name": curve.label, "colour": colour_class(curve.colour), "faint": curve.faint}
        curves.append({**shown, "x": curve.steps.tolist(), "y": y})
    ranges = {"x": [frame.first, frame.last], "y": [frame.low, frame.high]}
    numbers: dict[str, Any] = {**ranges, "log": frame.is_log, "curves": curves, "across": chart.across}
    if chart.ticks:
        numbers["ticks"] = list(chart.ticks.items())
    return json.dumps(numbers, separators=(",", ":")).replace("<", "\\u003c")


def _short(value: float) -> float:
    return float(f"{value:.5g}")
