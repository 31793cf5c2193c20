"""What two settings have reached with equal tokens, FLOPs and seconds: a better one may only have used more."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.cli.judge.sides import Pair, value
from tiryns.runner.manifest.inputs import read_manifest
from tiryns.runner.run.folder import Run
from tiryns.runner.run.metrics_file import Series

Floats = NDArray[np.float64]

ALIKE = 0.005
"""Budgets that differ by this share are equal."""

NOT_COUNTED = "a run has not counted them from its beginning"


class AtEqual(NamedTuple):
    """The pairs' differences at an equal budget, or why they cannot be told; `same` where the whole runs used it."""

    budget: str
    differences: list[float] | None
    same: bool = False
    why: str = ""


class Used(NamedTuple):
    """What a run has used of a budget at each point of its curve [N], and in all."""

    at: Floats
    total: float


def at_equal_budgets(pairs: Sequence[Pair], key: str) -> list[AtEqual]:
    """The differences at the smaller of both runs' tokens, FLOPs and seconds, pair by pair."""
    return [
        _at_equal(pairs, key, "tokens", lambda run: counts(run, key, "tokens")),
        _at_equal(pairs, key, "FLOPs", lambda run: counts(run, key, "flops")),
        _at_equal(pairs, key, "seconds", lambda run: seconds(run, key)),
    ]


def counts(run: Run, key: str, of: str) -> Used | None:
    """Tokens or FLOPs, which the manifest has for the whole run: each step is taken to have used as many."""
    totals = read_manifest(run.path).get("totals") or {}
    steps, total = totals.get("steps"), totals.get(of)
    if not steps or not total or totals.get("counted_from_step"):
        return None
    return Used(_curve(run, key).steps * total / steps, float(total))


def seconds(run: Run, key: str) -> Used | None:
    """Seconds since training began, by `metrics.csv`; None for a run that was interrupted."""
    sessions = read_manifest(run.path).get("sessions") or []
    times = [series.times.max() for series in run.series.values()]
    if len(sessions) != 1 or not times:
        return None
    began = datetime.fromisoformat(sessions[0]["began"]).timestamp()
    return Used(_curve(run, key).times - began, float(max(times)) - began)


def _at_equal(pairs: Sequence[Pair], key: str, budget: str, use: Callable[[Run], Used | None]) -> AtEqual:
    used = [(use(pair.against), use(pair.change)) for pair in pairs]
    if any(None in both for both in used):
        noted = all(read_manifest(run.path) for pair in pairs for run in (pair.against, pair.change))
        why = "a run was interrupted" if budget == "seconds" else NOT_COUNTED
        return AtEqual(budget, None, why=why if noted else "a run has no manifest.json")
    known = [(against, change) for against, change in used if against and change]
    if all(abs(a.total - c.total) <= ALIKE * max(a.total, c.total) for a, c in known):
        return AtEqual(budget, [pair.difference(key) for pair in pairs], same=True)
    found = []
    for pair, (against, change) in zip(pairs, known, strict=True):
        budgeted = min(against.total, change.total)
        before = _reached(pair.against, key, against, budgeted)
        after = _reached(pair.change, key, change, budgeted)
        if before is None or after is None:
            return AtEqual(
                budget, None, why="a run logged no figure before it: set a smaller trainer.validate_every"
            )
        found.append(after - before)
    return AtEqual(budget, found)


def _reached(run: Run, key: str, used: Used, budget: float) -> float | None:
    """The figure at a budget: at the end, else on the line between the points around it; None before the first."""
    if budget >= used.total * (1 - 1e-9):
        return value(run, key)
    if not len(used.at) or budget < used.at[0]:
        return None
    return float(np.interp(budget, used.at, _curve(run, key).values))


def _curve(run: Run, key: str) -> Series:
    """The figure's curve by step; of a step that was logged twice, the later point."""
    if key not in run.series:
        return Series(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
    series = run.series[key]
    last = len(series.steps) - 1 - np.unique(series.steps[::-1], return_index=True)[1]
    return Series(series.steps[last], series.values[last], series.times[last])
