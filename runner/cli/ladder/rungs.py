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
from tiryns.runner.report.curves import Chart, Curve, log2_curve, over_powers
from tiryns.runner.run.files import COORDINATES, LADDER, read_json
from tiryns.runner.run.folder import Run, find_runs

SIZES = ("parameters", "flops")

Results = dict[str, Any]
"""The results of a ladder, or of one of its widths, by name."""


def ladder_in(folder: Path, metric: str | None, of: str) -> Results:
    """Returns what `tiryns ladder --json` prints, except for the page; raises ValueError for runs that form no ladder."""
    finished_runs = (run for run in map(Run, find_runs(folder)) if run.state == "done" and _width(run))
    if not (runs := sorted(finished_runs, key=_width)):
        raise ValueError(f"{str(folder)!r} has no finished run with model.hidden_size in its config")
    key = metric or runs[0].monitor or "train/loss"
    check_figure(runs[0], key)
    if runs[0].larger_is_better and key == runs[0].monitor:
        raise ValueError(f"{key} is better if larger, but the law is for losses: choose a loss with --metric")
    rungs = [_rung(width, list(group), key, of) for width, group in groupby(runs, _width)]
    predictions = [*read_json(folder / LADDER, {}).get("predictions", {}).values()]
    of_metric = [one for one in predictions if (one["figure"], one.get("of", SIZES[0])) == (key, of)]
    next_widths = [one["width"] for one in predictions]
    basis = [r for r in rungs if r["width"] not in next_widths or len({row["rate"] for row in r["runs"]}) > 1]
    width, size, rate, loss = _columns(basis, "width", "size", "rate", "loss")
    return {
        "folder": str(folder), "figure": key, "of": of, "widths": basis,
        "transfer": law.transfer(width, rate)._asdict() if len(width) > 1 else None,
        "law": fit._asdict() if (fit := law.law_of(size, loss)) else None,
        "predictions": [_outcome(one, rungs) for one in of_metric], "coordinates": _coordinates(runs),
    }  # fmt: skip


def _width(run: Run) -> int:
    return int(run.settings.get("model.hidden_size") or 0)


def _columns(rungs: Sequence[Results], *names: str) -> list[list[Any]]:
    """Returns these fields as columns, for all widths with a best rate."""
    return [[rung[name] for rung in rungs if rung["rate"]] for name in names]


def _rung(width: int, runs: Sequence[Run], key: str, of: str) -> Results:
    """Returns a width's size, runs, and best rate and loss (means over seeds), or the `problem` if no rate is best."""
    size = (read_manifest(runs[0].path).get("totals") or {}).get(of)
    if not size:
        raise ValueError(f"{str(runs[0].path)!r}: its manifest has no {of}")
    rows: list[Results] = [
        {"seed": seed_of(run), "rate": float(run.settings["optimizer.lr"]), "loss": loss}
        for run in runs
        if (loss := run.final(key)) is not None and math.isfinite(loss)
    ]
    if apart := [name for name in differing(runs) if name != "optimizer.lr"]:
        raise ValueError(f"runs of width {width} differ in {', '.join(apart)}, not in rate and seed alone")
    seeds = sorted({row["seed"] for row in rows})
    curves = {seed: {row["rate"]: row["loss"] for row in rows if row["seed"] == seed} for seed in seeds}
    return {"width": width, "size": float(size), "runs": rows, **law.at_best(curves)._asdict()}


def _outcome(one: Results, rungs: Sequence[Results]) -> Results:
    rows = [row for rung in rungs if rung["width"] == one["width"] for row in rung["runs"]]
    losses = [row["loss"] for row in rows if math.isclose(row["rate"], one["rate"])]
    loss = float(np.mean(losses)) if losses else None
    return {**one, "measured": loss, "inside": loss and one["low"] <= loss <= one["high"]}


def _coordinates(runs: Sequence[Run]) -> Results:
    """Returns, by part, how far activations `moved` by width and step, and the `power` of the width; empty if unknown."""
    parts = {}
    for name in (name for name in runs[0].series if name.startswith(COORDINATES)):
        changes = {_width(run): run.series[name].values.tolist() for run in runs if name in run.series}
        last = [values[-1] for values in changes.values()]
        if len(last) > 1 and min(last) > 0:
            power = law.transfer([*changes], last).power
            parts[name.removeprefix(COORDINATES)] = {"power": power, "moved": changes}
    return parts


def predict(results: Results, width: int, widths: Sequence[int], seeds: int) -> Results:
    """Predicts rate and loss of a width from `widths`; ValueError if one has no best rate, or losses do not fall."""
    rungs = [rung for rung in results["widths"] if rung["width"] in widths]
    if problems := [f"width {rung['width']}: {rung['problem']}" for rung in rungs if rung["problem"]]:
        raise ValueError(f"width {width} cannot be predicted, as {problems[0]}: change --rates")
    hidden, sizes, rates, losses, scatter = _columns(rungs, "width", "size", "rate", "loss", "deviation")
    size = round(float(np.polyval(np.polyfit(hidden, sizes, 2), width)))  # both sizes are of second degree
    prediction = law.predict(sizes, losses, float(np.sqrt(np.mean(np.square(scatter)))), size)
    entry = {"width": width, "figure": results["figure"], "of": results["of"], "size": size, "seeds": seeds}
    return {**entry, "rate": law.rate_at(width, hidden, rates), **prediction._asdict()}


def lines(results: Results) -> Iterator[str]:
    """Yields the results as lines, one sentence each."""
    if results["coordinates"]:
        for name, each in results["coordinates"].items():
            yield f"{name} move with the width to the power {each['power']:+.2f}"
        return
    for each in results["widths"]:
        form = ",.0f" if results["of"] == "parameters" else ".3g"
        best = f"best rate {_with_ends(each['rate'], each['interval'])}, {results['figure']} {page.number(each['loss'])}"
        yield f"width {each['width']} ({each['size']:{form}} {results['of']}): {each['problem'] or best}"
    if results["transfer"]:
        power, ratio = results["transfer"]["power"], results["transfer"]["ratio"]
        yield f"the best rate scales with the width to the power {power:+.2f}, and differs by a factor of {ratio:.2f}"
    if results["law"]:
        yield f"{results['figure']} = {_equation(results)}"
    for one in results["predictions"]:
        came = f"it came to {page.number(one['measured'])}, {'inside' if one['inside'] else 'outside'}"
        interval = _with_ends(one["value"], [one["low"], one["high"]])
        head = f"width {one['width']} at rate {one['rate']:.3g}: predicted {interval}"
        yield f"{head}; {'it is not trained yet' if one['measured'] is None else came}"


def _equation(results: Results) -> str:
    return "{floor:.3g} + {factor:.3g} x {of} ^ -{exponent:.3g}".format(of=results["of"], **results["law"])


def _with_ends(value: float | None, ends: Sequence[float] | None) -> str:
    return "" if value is None else f"{value:.3g}" + (f" ({ends[0]:.3g} to {ends[1]:.3g})" if ends else "")


def write_page(path: Path, results: Results) -> Path:
    """Writes the page of a ladder, and returns its path."""
    sentences = [page.part("text", text=line) for line in lines(results)]
    charts = [*(_moves(results["coordinates"]) if results["coordinates"] else _ladder(results))]
    parts = [page.section("What the runs say", *sentences), page.section("Charts", page.charts(charts))]
    return page.save_page(path, "Tiryns ladder", "Widths and rates", parts, meta=[results["figure"]])


def _moves(coordinates: Results) -> Iterator[Chart]:
    """Yields a chart per part of the model: the change of activations over the width, with curves for up to 3 steps."""
    for name, each in coordinates.items():
        count = len(next(iter(each["moved"].values())))
        curves = []
        for colour, at in enumerate(sorted({1, (1 + count) // 2, count})):
            values = {width: changes[at - 1] for width, changes in each["moved"].items()}
            curves.append(log2_curve(f"step {at}", values, colour))
        yield over_powers(name, "root mean square of the change", "width", curves, from_zero=True)


def _ladder(results: Results) -> Iterator[Chart]:
    curves = []
    for colour, each in enumerate(results["widths"]):
        grid = sorted({row["rate"] for row in each["runs"]})
        means = {at: np.mean([row["loss"] for row in each["runs"] if row["rate"] == at]) for at in grid}
        curves.append(log2_curve(f"width {each['width']}", means, colour))
    yield over_powers("Loss over rate", results["figure"], "rate", curves, wide=True)
    widths, rates, sizes, losses = _columns(results["widths"], "width", "rate", "size", "loss")
    if len(widths) > 1:
        best = log2_curve("best rate", dict(zip(widths, rates, strict=True)), 0)
        yield over_powers("Best rate", "the mean over seeds", "width", [best], from_zero=True)
    if results["law"]:
        points = [one for one in results["predictions"] if one["measured"]]
        sizes, losses = sizes + [one["size"] for one in points], losses + [one["measured"] for one in points]
        places = np.geomspace(min(sizes), max(sizes), 60).tolist()
        curve = log2_curve("law", {at: law.Law(**results["law"]).at(at) for at in places}, 1)
        curves = [curve, log2_curve("measured", dict(zip(sizes, losses, strict=True)), 0, loose=True)]
        for one in results["predictions"]:
            at, ends = np.log2([one["size"]] * 2), np.array([one["low"], one["high"]])
            curves.append(Curve(f"predicted of width {one['width']}", at, ends, 2, dots=True))
        ticks = dict(zip(np.log2(sizes).tolist(), widths + [one["width"] for one in points], strict=True))
        yield Chart("Law", _equation(results), curves, across="width", ticks=ticks)
