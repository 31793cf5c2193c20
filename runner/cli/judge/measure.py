"""Finds the metric to compare, checks that the runs are comparable, and compares pairs at equal budgets."""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiryns.conf.registry import better_when
from tiryns.conf.values import suggest
from tiryns.runner.cli.judge.sides import Pair, value
from tiryns.runner.manifest.differences import changes
from tiryns.runner.manifest.inputs import read_manifest
from tiryns.runner.report.comparison import comparable
from tiryns.runner.run import audit
from tiryns.runner.run.folder import Run
from tiryns.runner.run.metrics_file import Series

SHARED = "Folds share training examples, so their pairs are not independent: the error may be larger."

NOT_LEARNT = ("perf/", "optim/", "train/epoch")
"""Prefixes of metrics that are neither better nor worse, or that describe the machine."""

BUDGETS = ("tokens", "FLOPs", "seconds")

ALIKE = 0.005
"""Budgets that differ by at most this share count as equal."""


def measure_of(pairs: Sequence[Pair], metric: str | None) -> comparable.Goal:
    """Returns the metric to compare pairs by: `metric`, or the metric that both settings monitor.

    Losses of different vocabularies are compared as bits per byte. Raises ValueError if the
    settings monitor different metrics, lack `metric`, or do not measure the same.
    """
    runs = list(chain.from_iterable((pair.against, pair.change) for pair in pairs))
    monitors = {run.monitor for run in runs}
    if metric in (None, "objective") and len(monitors) > 1:
        names = " and ".join(sorted(map(str, monitors)))
        raise ValueError(f"the settings monitor different figures, {names}: choose one with --metric")
    if (key := metric or runs[0].monitor) is None:
        raise ValueError("the runs monitor no figure: choose one with --metric, such as val/held_out/loss")
    if key.startswith(comparable.OF_SUITES):
        _check_same(runs, "suite", comparable.suite_of)
    else:
        _check_same(runs, "objective", comparable.objective_of)
    if pairs[0].replicate.fold is not None:
        _check_same(runs, "examples", comparable.examples_of)
        key = metric or f"{comparable.HELD_OUT}{key.rpartition('/')[2]}"
        larger = runs[0].larger_is_better if metric is None else _larger(runs, key)
        return _check_values(runs, comparable.Goal(key, larger, note=SHARED))
    if key.startswith("train/"):
        _check_same(runs, "training data and objective", comparable.training_of)
    of = runs[0].monitor or key if key == "objective" else key
    if not of.startswith("val/"):
        return _check_values(runs, comparable.Goal(key, _larger(runs, key)))
    _check_same(runs, "validation", lambda run: comparable.validation_of(run, key))
    name = of.split("/")[1]
    have_sets = all(comparable.sets_of(run).get(name) for run in runs)  # else the settings alone can tell
    facts = [comparable.sets_of(run)[name] if have_sets else comparable.data_of(run) for run in runs]
    if all(fact == facts[0] for fact in facts):
        return _check_values(runs, comparable.Goal(key, _larger(runs, key)))
    _check_same(runs, f"data of val/{name}", comparable.texts_of)
    per_byte = f"val/{name}/{comparable.PER_BYTE}"
    if key == per_byte or (metric is None and all(run.final(per_byte) is not None for run in runs)):
        note = "The vocabularies differ, so bits per byte are compared."
        return _check_values(runs, comparable.Goal(per_byte, False, note=note))
    other = "the settings have other vocabularies or texts"
    raise ValueError(f"{key} counts tokens, and {other}: choose --metric {per_byte}, if both have it")


def check_figure(run: Run, key: str) -> None:
    """Raises ValueError that suggests similar names if the run lacks a metric."""
    if run.final(key) is None:
        there = sorted({*run.results, *run.series})
        available = ", ".join(there) + suggest(key, there)
        raise ValueError(f"{str(run.path)!r} has no figure {key!r}; there are: {available}")


def common_parts(pairs: Sequence[Pair]) -> dict[str, bool | None]:
    """Returns whether the runs of all pairs share initial weights, and samples with their masks; None if unknown."""
    order: bool | None = None
    with suppress(ValueError):  # a run without an order log
        order = all(audit.compare(pair.against.path, pair.change.path) is None for pair in pairs)
    weights = all(_initial(pair.against) == _initial(pair.change) for pair in pairs)
    return {"initial_weights": weights, "order_and_masks": order}


def _check_values(runs: Sequence[Run], measure: comparable.Goal) -> comparable.Goal:
    """Returns the measure; raises ValueError for a run without this metric, or with a value that is not finite."""
    for run in runs:
        check_figure(run, measure.key)
        if not math.isfinite(run.final(measure.key) or 0.0):
            raise ValueError(f"{str(run.path)!r}: its {measure.key} is not finite, so it has no difference")
    return measure


def _larger(runs: Sequence[Run], key: str) -> bool:
    first = runs[0]
    return first.larger_is_better if key in (first.monitor, "objective") else better_when(key) == "max"


def _check_same(runs: Sequence[Run], subject: str, fact: Callable[[Run], object]) -> None:
    one = fact(runs[0])
    for run in runs[1:]:
        if (other := fact(run)) != one:
            both = f"{str(runs[0].path)!r} and {str(run.path)!r} differ in their {subject}"
            how = f"{one} and {other}"
            if isinstance(one, dict) and isinstance(other, dict):
                first = islice(changes(one, other), 3)
                how = "; ".join(f"{name}: {was} and {is_now}" for name, was, is_now in first)
            raise ValueError(f"{both} ({how}), so their figures do not measure the same")


def _initial(run: Run) -> object:
    model = {name: value for name, value in run.settings.items() if name.startswith("model.")}
    return model, comparable.inputs_of(run).get("tokenizer"), run.results.get("uniform_entropy")


class AtEqual(NamedTuple):
    """The pairs' differences at an equal budget, or None and the reason `why`; `same`: each pair's totals are equal."""

    differences: list[float] | None
    same: bool = False
    why: str = ""


def at_equal_budget(pairs: Sequence[Pair], key: str, budget: str) -> AtEqual:
    """Returns each pair's difference at the smaller budget of its two runs, or at their ends if all budgets are equal."""
    usages = [(_usage(pair.against, key, budget), _usage(pair.change, key, budget)) for pair in pairs]
    known_usages = [(against, change) for against, change in usages if against and change]
    if len(known_usages) < len(pairs):
        have_manifests = all(read_manifest(run.path) for pair in pairs for run in (pair.against, pair.change))
        lacks = "has not counted them from its beginning" if budget != "seconds" else "was interrupted"
        return AtEqual(None, why=f"a run {lacks if have_manifests else 'has no manifest.json'}")
    if all(abs(a - c) <= ALIKE * max(a, c) for (_, a), (_, c) in known_usages):
        return AtEqual([value(pair.change, key) - value(pair.against, key) for pair in pairs], same=True)
    differences = []
    for pair, (against, change) in zip(pairs, known_usages, strict=True):
        least = min(against[1], change[1])
        before = _value_at(pair.against, key, *against, least)
        after = _value_at(pair.change, key, *change, least)
        if before is None or after is None:
            return AtEqual(None, why="a run logged no value so early: set a smaller trainer.validate_every")
        differences.append(after - before)
    return AtEqual(differences)


def _usage(run: Run, key: str, budget: str) -> tuple[NDArray[np.float64], float] | None:
    """Returns the budget used at each point of a curve [N] and in all (equal tokens or FLOPs a step); None if unknown."""
    manifest, curve = read_manifest(run.path), _curve(run, key)
    if budget == "seconds":
        sessions, ends = manifest.get("sessions") or [], [each.times.max() for each in run.series.values()]
        if len(sessions) != 1 or not ends:
            return None
        began = datetime.fromisoformat(sessions[0]["began"]).timestamp()
        return curve.times - began, float(max(ends)) - began
    totals = manifest.get("totals") or {}
    steps, total = totals.get("steps"), totals.get(budget.lower())
    if not steps or not total or totals.get("counted_from_step"):
        return None
    return curve.steps * total / steps, float(total)


def _value_at(run: Run, key: str, usage: NDArray[np.float64], total: float, budget: float) -> float | None:
    """Returns the metric at a budget: the final value, or interpolated between two points; None before the first."""
    if budget >= total * (1 - 1e-9):
        return value(run, key)
    if not len(usage) or budget < usage[0]:
        return None
    return float(np.interp(budget, usage, _curve(run, key).values))


def _curve(run: Run, key: str) -> Series:
    """Returns the metric's curve by step; a step that was logged twice keeps its later point."""
    series = run.series.get(key, Series(np.zeros(0, np.int64), np.zeros(0), np.zeros(0)))
    last = len(series.steps) - 1 - np.unique(series.steps[::-1], return_index=True)[1]
    return Series(series.steps[last], series.values[last], series.times[last])
