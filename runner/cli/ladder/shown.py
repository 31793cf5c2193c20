"""A ladder in lines, and its page: losses over rates, the best rates over widths, and the law."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tiryns.runner.cli.ladder.rungs import Found, columns
from tiryns.runner.evaluation.statistics.scaling_law import Law
from tiryns.runner.report import page
from tiryns.runner.report.coordinates import coordinate_charts, coordinate_lines
from tiryns.runner.report.curves import Chart, Curve, dotted, over_powers


def lines(found: Found) -> Iterator[str]:
    """What the runs say, a sentence a line."""
    yield from coordinate_lines(found["coordinates"])
    if found["coordinates"]:
        return
    for each in found["widths"]:
        form = ",.0f" if found["of"] == "parameters" else ".3g"
        best = f"best rate {_with_ends(each['rate'], each['interval'])}, {found['figure']} {page.number(each['loss'])}"
        yield f"width {each['width']} ({each['size']:{form}} {found['of']}): {each['problem'] or best}"
    if found["transfer"]:
        power, ratio = found["transfer"]["power"], found["transfer"]["ratio"]
        yield f"the best rate goes with the width to the power {power:+.2f}, and differs by a factor of {ratio:.2f}"
    if found["law"]:
        yield f"{found['figure']} = {_equation(found)}"
    for one in found["predictions"]:
        came = f"it came to {page.number(one['measured'])}, {'inside' if one['inside'] else 'outside'}"
        expected = _with_ends(one["value"], [one["low"], one["high"]])
        head = f"width {one['width']} at rate {one['rate']:.3g}: predicted {expected}"
        yield f"{head}; {'it is not trained yet' if one['measured'] is None else came}"


def _equation(found: Found) -> str:
    law = Law(**found["law"])
    return f"{law.floor:.3g} + {law.factor:.3g} x {found['of']} ^ -{law.exponent:.3g}"


def _with_ends(value: float | None, ends: Sequence[float] | None) -> str:
    return "" if value is None else f"{value:.3g}" + (f" ({ends[0]:.3g} to {ends[1]:.3g})" if ends else "")


def write_page(path: Path, found: Found) -> Path:
    """Writes the page of a ladder, and returns its path."""
    told = [page.part("text", text=line) for line in lines(found)]
    charts = [*coordinate_charts(found["coordinates"])] or [*_ladder(found)]
    parts = [page.section("What the runs say", *told), page.section("Charts", page.charts(charts))]
    return page.save_page(path, "Tiryns ladder", "Widths and rates", parts, meta=[found["figure"]])


def _ladder(found: Found) -> Iterator[Chart]:
    curves = []
    for colour, each in enumerate(found["widths"]):
        tried = sorted({row["rate"] for row in each["runs"]})
        means = {at: np.mean([row["loss"] for row in each["runs"] if row["rate"] == at]) for at in tried}
        curves.append(dotted(f"width {each['width']}", means, colour))
    yield over_powers("Loss over rate", found["figure"], "rate", curves, wide=True)
    widths, rates, sizes, losses = columns(found["widths"], "width", "rate", "size", "loss")
    if len(widths) > 1:
        best = dotted("best rate", dict(zip(widths, rates, strict=True)), 0)
        yield over_powers("Best rate", "the mean over seeds", "width", [best], from_zero=True)
    if found["law"]:
        known = [one for one in found["predictions"] if one["measured"]]
        sizes, losses = sizes + [one["size"] for one in known], losses + [one["measured"] for one in known]
        law = {at: Law(**found["law"]).at(at) for at in np.geomspace(min(sizes), max(sizes), 60).tolist()}
        curves = [dotted("measured", dict(zip(sizes, losses, strict=True)), 0, loose=True)]
        for one in found["predictions"]:
            at, ends = np.log2([one["size"]] * 2), np.array([one["low"], one["high"]])
            curves.append(Curve(f"predicted of width {one['width']}", at, ends, 2, dots=True))
        ticks = dict(zip(np.log2(sizes).tolist(), widths + [one["width"] for one in known], strict=True))
        yield Chart("Law", _equation(found), [dotted("law", law, 1), *curves], across="width", ticks=ticks)
