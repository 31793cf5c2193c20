"""What the runs of a ladder say: for each width the best rate and the loss there, and what follows from these."""

import math
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from tiryns.runner.cli.judge.measure import check_figure
from tiryns.runner.evaluation.statistics import scaling_law as law
from tiryns.runner.manifest.inputs import read_manifest
from tiryns.runner.report.comparison.differences import seed_of
from tiryns.runner.report.coordinates import coordinates_of, width_of
from tiryns.runner.run.files import LADDER, read_json
from tiryns.runner.run.folder import Run, find_runs

SIZES = ("parameters", "flops")
"""What a loss can be a law of."""

Found = dict[str, Any]
"""What the runs of a ladder say, or those of one width."""


def ladder_in(folder: Path, metric: str | None, of: str) -> Found:
    """What `tiryns ladder --json` prints, but for the page; raises ValueError for runs that are none of a ladder."""
    done = (run for run in map(Run, find_runs(folder)) if run.state == "done" and width_of(run))
    if not (runs := sorted(done, key=width_of)):
        raise ValueError(f"{str(folder)!r} has no finished run that tells model.hidden_size")
    key = metric or runs[0].monitor or ""
    check_figure(runs[0], key)
    if runs[0].larger_is_better and key == runs[0].monitor:
        raise ValueError(f"{key} is better when large, and a law is of a loss: choose one with --metric")
    rungs = [_rung(width, list(group), key, of) for width, group in groupby(runs, width_of)]
    noted = [*read_json(folder / LADDER, {}).get("predictions", {}).values()]
    untried = [one["width"] for one in noted]
    tried = [r for r in rungs if r["width"] not in untried or len({row["rate"] for row in r["runs"]}) > 1]
    width, size, rate, loss = columns(tried, "width", "size", "rate", "loss")
    return {
        "folder": str(folder),
        "figure": key,
        "of": of,
        "widths": tried,
        "transfer": law.transferred(width, rate)._asdict() if len(width) > 1 else None,
        "law": law.law_of(size, loss)._asdict() if len(size) > 2 and loss[0] > loss[-1] else None,
        "predictions": [_outcome(one, rungs) for one in noted],
        "coordinates": coordinates_of(runs),
    }


def columns(rungs: Sequence[Found], *names: str) -> list[list[Any]]:
    """Fields of the widths that have a best rate."""
    return [[rung[name] for rung in rungs if rung["rate"]] for name in names]


def _rung(width: int, runs: Sequence[Run], key: str, of: str) -> Found:
    """A width: its size, its runs, and over the seeds the best rate and the loss there, or why there is none."""
    size = (read_manifest(runs[0].path).get("totals") or {}).get(of)
    if not size:
        raise ValueError(f"{str(runs[0].path)!r} does not tell its {of}")
    rows: list[Found] = [
        {"seed": seed_of(run), "rate": float(run.settings["optimizer.lr"]), "loss": loss}
        for run in runs
        if (loss := run.final(key)) is not None and math.isfinite(loss)
    ]
    seeds = sorted({row["seed"] for row in rows})
    curves = {seed: {row["rate"]: row["loss"] for row in rows if row["seed"] == seed} for seed in seeds}
    return {"width": width, "size": float(size), "runs": rows, **law.at_best(curves)._asdict()}


def _outcome(one: Found, rungs: Sequence[Found]) -> Found:
    rows = [row for rung in rungs if rung["width"] == one["width"] for row in rung["runs"]]
    losses = [row["loss"] for row in rows if math.isclose(row["rate"], one["rate"])]
    measured = float(np.mean(losses)) if losses else None
    return {**one, "measured": measured, "inside": measured and one["low"] <= measured <= one["high"]}


def predicted(found: Found, width: int, widths: Sequence[int], seeds: int) -> Found:
    """What is to be expected of a width from narrower ones; raises ValueError where these say nothing of it."""
    rungs = [rung for rung in found["widths"] if rung["width"] in widths]
    if problems := [f"width {rung['width']}: {rung['problem']}" for rung in rungs if rung["problem"]]:
        raise ValueError(f"width {width} cannot be predicted, as {problems[0]}: change --rates")
    known, sizes, rates, losses, scatter = columns(rungs, "width", "size", "rate", "loss", "deviation")
    size = round(float(np.polyval(np.polyfit(known, sizes, 2), width)))  # both sizes are of second degree
    expected = law.predicted(sizes, losses, float(np.sqrt(np.mean(np.square(scatter)))), size)
    noted = {"width": width, "figure": found["figure"], "size": size, "seeds": seeds}
    return {**noted, "rate": law.rate_at(width, known, rates), **expected._asdict()}
