"""The results of a ladder's runs: best rates, law of the loss and predictions, as numbers, as lines and as a page."""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from tiryns.runner.cli.judge.measure import check_figure
from tiryns.runner.cli.judge.sides import differing
from tiryns.runner.evaluation.statistics import scaling_law as law
from tiryns.runner.manifest.inputs import read_manifest
from tiryns.runner.report import page
from tiryns.runner.report.comparison.differences import seed_of
from tiryns.runner.report.curves import Chart, Curve, dotted, over_powers
from tiryns.runner.run.files import COORDINATES, LADDER, read_json
from tiryns.runner.run.folder import Run, find_runs

SIZES = ("parameters", "flops")

Found = dict[str, Any]
"""The results of a ladder, or of one of its widths, by name."""


def ladder_in(folder: Path, metric: str | None, of: str) -> Found:
    """Returns what `tiryns ladder --json` prints, except for the page; raises ValueError for runs that form no ladder."""
    done = (run for run in map(Run, find_runs(folder)) if run.state == "done" and _width(run))
    if not (runs := sorted(done, key=_width)):
        raise ValueError(f"{str(folder)!r} has no finished run with model.hidden_size in its config")
    key = metric or runs[0].monitor or "train/loss"
    check_figure(runs[0], key)
    if runs[0].larger_is_better and key == runs[0].monitor:
        raise ValueError(f"{key} is better if larger, but the law is for losses: choose a loss with --metric")
    rungs = [_rung(width, list(group), key, of) for width, group in groupby(runs, _width)]
    noted = [*read_json(folder / LADDER, {}).get("predictions", {}).values()]
    untried = [one["width"] for one in noted]
    tried = [r for r in rungs if r["width"] not in untried or len({row["rate"] for row in r["runs"]}) > 1]
    width, size, rate, loss = _columns(tried, "width", "size", "rate", "loss")
    return {
        "folder": str(folder), "figure": key, "of": of, "widths": tried,
        "transfer": law.transferred(width, rate)._asdict() if len(width) > 1 else None,
        "law": fit._asdict() if (fit := law.law_of(size, loss)) else None,
        "predictions": [_outcome(one, rungs) for one in noted], "coordinates": _coordinates(runs),
    }  # fmt: skip


def _width(run: Run) -> int:
    return int(run.settings.get("model.hidden_size") or 0)


def _columns(rungs: Sequence[Found], *names: str) -> list[list[Any]]:
    """Returns these fields as columns, for all widths with a best rate."""
    return [[rung[name] for rung in rungs if rung["rate"]] for name in names]


def _rung(width: int, runs: Sequence[Run], key: str, of: str) -> Found:
    """Returns a width's size, runs, and best rate and loss (means over seeds), or the `problem` if no rate is best."""
    size = (read_manifest(runs[0].path).get("totals") or {}).get(of)
    if not size:
        raise ValueError(f"{str(runs[0].path)!r}: its manifest has no {of}")
    rows: list[Found] = [
        {"seed": seed_of(run), "rate": float(run.settings["optimizer.lr"]), "loss": loss}
        for run in runs
        if (loss := run.final(key)) is not None and math.isfinite(loss)
    ]
    if apart := [name for name in differing(runs) if name != "optimizer.lr"]:
        raise ValueError(f"runs of width {width} differ in {', '.join(apart)}, not in rate and seed alone")
    seeds = sorted({row["seed"] for row in rows})
    curves = {seed: {row["rate"]: row["loss"] for row in rows if row["seed"] == seed} for seed in seeds}
    return {"width": width, "size": float(size), "runs": rows, **law.at_best(curves)._asdict()}


def _outcome(one: Found, rungs: Sequence[Found]) -> Found:
    rows = [row for rung in rungs if rung["width"] == one["width"] for row in rung["runs"]]
    losses = [row["loss"] for row in rows if math.isclose(row["rate"], one["rate"])]
    measured = float(np.mean(losses)) if losses else None
    return {**one, "measured": measured, "inside": measured and one["low"] <= measured <= one["high"]}


def _coordinates(runs: Sequence[Run]) -> Found:
    """Returns, by part, how far activations `moved` by width and step, and the `power` of the width; empty if unknown."""
    found = {}
    for name in (name for name in runs[0].series if name.startswith(COORDINATES)):
        moved = {_width(run): run.series[name].values.tolist() for run in runs if name in run.series}
        last = [values[-1] for values in moved.values()]
        if len(last) > 1 and min(last) > 0:
            power = law.transferred([*moved], last).power
            found[name.removeprefix(COORDINATES)] = {"power": power, "moved": moved}
    return found


def predicted(found: Found, width: int, widths: Sequence[int], seeds: int) -> Found:
    """Predicts rate and loss of a width from `widths`; ValueError if one has no best rate, or losses do not fall."""
    rungs = [rung for rung in found["widths"] if rung["width"] in widths]
    if problems := [f"width {rung['width']}: {rung['problem']}" for rung in rungs if rung["problem"]]:
        raise ValueError(f"width {width} cannot be predicted, as {problems[0]}: change --rates")
    known, sizes, rates, losses, scatter = _columns(rungs, "width", "size", "rate", "loss", "deviation")
    size = round(float(np.polyval(np.polyfit(known, sizes, 2), width)))  # both sizes are of second degree
    expected = law.predicted(sizes, losses, float(np.sqrt(np.mean(np.square(scatter)))), size)
    noted = {"width": width, "figure": found["figure"], "size": size, "seeds": seeds}
    return {**noted, "rate": law.rate_at(width, known, rates), **expected._asdict()}


def lines(found: Found) -> Iterator[str]:
    """Yields the results as lines, one sentence each."""
    if found["coordinates"]:
        for name, each in found["coordinates"].items():
            yield f"{name} move with the width to the power {each['power']:+.2f}"
        return
    for each in found["widths"]:
        form = ",.0f" if found["of"] == "parameters" else ".3g"
        best = f"best rate {_with_ends(each['rate'], each['interval'])}, {found['figure']} {page.number(each['loss'])}"
        yield f"width {each['width']} ({each['size']:{form}} {found['of']}): {each['problem'] or best}"
    if found["transfer"]:
        power, ratio = found["transfer"]["power"], found["transfer"]["ratio"]
        yield f"the best rate scales with the width to the power {power:+.2f}, and differs by a factor of {ratio:.2f}"
    if found["law"]:
        yield f"{found['figure']} = {_equation(found)}"
    for one in found["predictions"]:
        came = f"it came to {page.number(one['measured'])}, {'inside' if one['inside'] else 'outside'}"
        expected = _with_ends(one["value"], [one["low"], one["high"]])
        head = f"width {one['width']} at rate {one['rate']:.3g}: predicted {expected}"
        yield f"{head}; {'it is not trained yet' if one['measured'] is None else came}"


def _equation(found: Found) -> str:
    return "{floor:.3g} + {factor:.3g} x {of} ^ -{exponent:.3g}".format(of=found["of"], **found["law"])


def _with_ends(value: float | None, ends: Sequence[float] | None) -> str:
    return "" if value is None else f"{value:.3g}" + (f" ({ends[0]:.3g} to {ends[1]:.3g})" if ends else "")


def write_page(path: Path, found: Found) -> Path:
    """Writes the page of a ladder, and returns its path."""
    told = [page.part("text", text=line) for line in lines(found)]
    charts = [*(_moves(found["coordinates"]) if found["coordinates"] else _ladder(found))]
    parts = [page.section("What the runs say", *told), page.section("Charts", page.charts(charts))]
    return page.save_page(path, "Tiryns ladder", "Widths and rates", parts, meta=[found["figure"]])


def _moves(coordinates: Found) -> Iterator[Chart]:
    """Yields a chart per part of the model: the change of activations over the width, with curves for up to 3 steps."""
    for name, each in coordinates.items():
        count = len(next(iter(each["moved"].values())))
        curves = []
        for colour, at in enumerate(sorted({1, (1 + count) // 2, count})):
            values = {width: moved[at - 1] for width, moved in each["moved"].items()}
            curves.append(dotted(f"step {at}", values, colour))
        yield over_powers(name, "root mean square of the change", "width", curves, from_zero=True)


def _ladder(found: Found) -> Iterator[Chart]:
    curves = []
    for colour, each in enumerate(found["widths"]):
        tried = sorted({row["rate"] for row in each["runs"]})
        means = {at: np.mean([row["loss"] for row in each["runs"] if row["rate"] == at]) for at in tried}
        curves.append(dotted(f"width {each['width']}", means, colour))
    yield over_powers("Loss over rate", found["figure"], "rate", curves, wide=True)
    widths, rates, sizes, losses = _columns(found["widths"], "width", "rate", "size", "loss")
    if len(widths) > 1:
        best = dotted("best rate", dict(zip(widths, rates, strict=True)), 0)
        yield over_powers("Best rate", "the mean over seeds", "width", [best], from_zero=True)
    if found["law"]:
        known = [one for one in found["predictions"] if one["measured"]]
        sizes, losses = sizes + [one["size"] for one in known], losses + [one["measured"] for one in known]
        places = np.geomspace(min(sizes), max(sizes), 60).tolist()
        curve = dotted("law", {at: law.Law(**found["law"]).at(at) for at in places}, 1)
        curves = [curve, dotted("measured", dict(zip(sizes, losses, strict=True)), 0, loose=True)]
        for one in found["predictions"]:
            at, ends = np.log2([one["size"]] * 2), np.array([one["low"], one["high"]])
            curves.append(Curve(f"predicted of width {one['width']}", at, ends, 2, dots=True))
        ticks = dict(zip(np.log2(sizes).tolist(), widths + [one["width"] for one in known], strict=True))
        yield Chart("Law", _equation(found), curves, across="width", ticks=ticks)
