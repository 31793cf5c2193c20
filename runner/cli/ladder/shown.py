"""A ladder in lines, and its page: losses over rates, the best rates over widths, the law, and the coordinate check."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tiryns.runner.evaluation.statistics.scaling_law import Law
from tiryns.runner.report import page
from tiryns.runner.report.curves import Chart, Curve


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """What the runs say, a sentence a line."""
    for name, moved in found["coordinates"].items():
        yield f"{name} move with the width to the power {moved['power']:+.2f}"
    if found["coordinates"]:
        return
    for each in found["widths"]:
        size = (
            f"{each['size']:,.0f} parameters" if found["of"] == "parameters" else f"{each['size']:.3g} FLOPs"
        )
        best = f"best rate {_with_ends(each['rate'], each['interval'])}, {found['figure']} {page.number(each['loss'])}"
        yield f"width {each['width']} ({size}): {each['problem'] or best}"
    if found["transfer"]:
        power, ratio = found["transfer"]["power"], found["transfer"]["ratio"]
        yield f"the best rate goes with the width to the power {power:+.2f}, and differs by a factor of {ratio:.2f}"
    if found["law"]:
        yield f"{found['figure']} = {equation(found)}"
    for one in found["predictions"]:
        came = f"it came to {page.number(one['measured'])}, {'inside' if one['inside'] else 'outside'}"
        expected = _with_ends(one["value"], [one["low"], one["high"]])
        head = f"width {one['width']} at rate {one['rate']:.3g}: predicted {expected}"
        yield f"{head}; {'it is not trained yet' if one['measured'] is None else came}"


def equation(found: Mapping[str, Any]) -> str:
    """The law, such as `2.1 + 35 x parameters ^ -0.21`."""
    law = Law(**found["law"])
    return f"{law.floor:.3g} + {law.factor:.3g} x {found['of']} ^ -{law.exponent:.3g}"


def _with_ends(value: float | None, ends: Sequence[float] | None) -> str:
    return "" if value is None else f"{value:.3g}" + (f" ({ends[0]:.3g} to {ends[1]:.3g})" if ends else "")


def write_page(path: Path, found: Mapping[str, Any]) -> Path:
    """Writes the page of a ladder, and returns its path."""
    told = [page.part("text", text=line) for line in lines(found)]
    charts = [*_coordinates(found["coordinates"])] or [*_ladder(found)]
    parts = [page.section("What the runs say", *told), page.section("Charts", page.charts(charts))]
    return page.save_page(path, "Tiryns ladder", "Widths and rates", parts, meta=[found["figure"]])


def _ladder(found: Mapping[str, Any]) -> Iterator[Chart]:
    curves, rates = [], {row["rate"] for each in found["widths"] for row in each["runs"]}
    for colour, each in enumerate(found["widths"]):
        own = sorted({row["rate"] for row in each["runs"]})
        means = [np.mean([row["loss"] for row in each["runs"] if row["rate"] == rate]) for rate in own]
        curves.append(Curve(f"width {each['width']}", np.log2(own), np.array(means), colour, dots=True))
    ticks = {float(np.log2(rate)): rate for rate in sorted(rates)}
    yield Chart("Loss over rate", found["figure"], curves, wide=True, across="rate", ticks=ticks)
    best = [each for each in found["widths"] if each["rate"]]
    if len(best) > 1:
        rate = _over_widths("best rate", {each["width"]: each["rate"] for each in best}, 0)
        yield _across("Best rate", "the mean over seeds", [rate])
    if found["law"]:
        points = [(each["size"], each["loss"], each["width"]) for each in best]
        points += [
            (one["size"], one["measured"], one["width"]) for one in found["predictions"] if one["measured"]
        ]
        sizes, losses, widths = (np.array(column) for column in zip(*points, strict=True))
        line = np.geomspace(sizes.min(), sizes.max(), 60)
        law = np.array([Law(**found["law"]).at(size) for size in line.tolist()])
        curves = [
            Curve("law", np.log2(line), law, 1),
            Curve("measured", np.log2(sizes), losses, 0, loose=True),
        ]
        for one in found["predictions"]:
            at, ends = np.log2([one["size"]] * 2), np.array([one["low"], one["high"]])
            curves.append(Curve(f"predicted of width {one['width']}", at, ends, 2, dots=True))
        ticks = {float(np.log2(size)): int(width) for size, width in zip(sizes, widths, strict=True)}
        yield Chart("Law", equation(found), curves, across="width", ticks=ticks)


def _coordinates(found: Mapping[str, Mapping[str, Any]]) -> Iterator[Chart]:
    """A chart for each part: how far it has moved over the width, a curve for a few of the steps."""
    for name, each in found.items():
        count = len(next(iter(each["moved"].values())))
        steps = sorted({1, (1 + count) // 2, count})
        curves = [
            _over_widths(
                f"step {step}", {width: values[step - 1] for width, values in each["moved"].items()}, colour
            )
            for colour, step in enumerate(steps)
        ]
        yield _across(name, "root mean square of the change", curves)


def _over_widths(label: str, values: Mapping[int, float], colour: int) -> Curve:
    return Curve(label, np.log2([*values]), np.array([*values.values()]), colour, dots=True)


def _across(title: str, unit: str, curves: list[Curve]) -> Chart:
    ticks = {float(at): round(2**at) for curve in curves for at in curve.steps.tolist()}
    return Chart(title, unit, curves, from_zero=True, across="width", ticks=ticks)
