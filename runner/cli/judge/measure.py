"""The figure that is compared, and whether that makes sense."""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import NamedTuple

from tiryns.conf.registry import better_when
from tiryns.conf.values import suggest
from tiryns.runner.cli.judge.sides import Pair
from tiryns.runner.manifest.differences import changes
from tiryns.runner.report.comparison import comparable
from tiryns.runner.report.comparison.goal import HELD_OUT
from tiryns.runner.run import audit
from tiryns.runner.run.folder import Run

SHARED = "Folds share training examples, so their pairs are not independent: the error may be larger."

NOT_LEARNT = ("perf/", "optim/", "train/epoch")
"""Starts of figures that are neither better nor worse, or are those of the machine."""


class Measure(NamedTuple):
    """A figure by its key, whether a large one is better, and a remark on how it was chosen."""

    key: str
    larger_is_better: bool
    note: str = ""

    @property
    def direction(self) -> str:
        """`max` where a large figure is better, else `min`."""
        return "max" if self.larger_is_better else "min"


def measure_of(pairs: Sequence[Pair], metric: str | None) -> Measure:
    """The figure to compare pairs by: `metric`, or the one that both settings monitor.

    Losses per token of other vocabularies cannot be compared, so bits per byte take their place. Raises ValueError where
    the settings monitor different figures, have none of this name, or do not measure the same.
    """
    runs = list(chain.from_iterable((pair.against, pair.change) for pair in pairs))
    key = metric or _monitored(pairs)
    if key.startswith(comparable.OF_SUITES):
        _check_same(runs, "suite", comparable.suite_of)
    else:
        _check_same(runs, "objective", comparable.objective_of)
    if pairs[0].shared.fold is not None:
        _check_same(runs, "examples", comparable.examples_of)
        key = metric or f"{HELD_OUT}{key.rpartition('/')[2]}"
        larger = runs[0].larger_is_better if metric is None else _larger(runs, key)
        return _logged(runs, Measure(key, larger, SHARED))
    if key.startswith("train/"):
        _check_same(runs, "training data and objective", _trained_on)
    if not key.startswith("val/"):
        return _logged(runs, Measure(key, _larger(runs, key)))
    _check_same(runs, "validation", comparable.validation_of)
    name = key.split("/")[1]
    if _agree(runs, lambda run: comparable.evaluated_on(run, name)):
        return _logged(runs, Measure(key, _larger(runs, key)))
    _check_same(runs, f"data of val/{name}", comparable.texts_of)
    per_byte = f"val/{name}/{comparable.PER_BYTE}"
    if key == per_byte or (metric is None and all(run.final(per_byte) is not None for run in runs)):
        note = "The vocabularies differ, so bits per byte are compared."
        return _logged(runs, Measure(per_byte, False, note))
    raise ValueError(
        f"{key} counts tokens, and the settings have other vocabularies or cut their texts elsewhere: compare "
        f"--metric {per_byte}, where both have it"
    )


def check_metric(metric: str) -> None:
    """Raises ValueError for a figure of speed, memory or the schedule: pairs of equal seeds say nothing of it."""
    if metric.startswith(NOT_LEARNT):
        raise ValueError(
            f"--metric {metric}: it tells how a run was computed, not what it has learnt, so equal seeds make no pairs "
            "of it; `tiryns runs compare` shows it, and an answer tells what holds at equal seconds"
        )


def check_figure(run: Run, key: str) -> None:
    """Raises ValueError for a run that has no such figure, with near names."""
    if run.final(key) is None:
        there = sorted({*run.results, *run.series})
        raise ValueError(
            f"{str(run.path)!r} has no figure {key!r}; there are: {', '.join(there)}" + suggest(key, there)
        )


def shared_by(pairs: Sequence[Pair]) -> dict[str, bool | None]:
    """Whether the runs of all pairs share initial weights, and samples with their masks; None where it is not known."""
    order: bool | None = None
    with suppress(ValueError):  # a run without an order log
        order = all(audit.compare(pair.against.path, pair.change.path) is None for pair in pairs)
    weights = all(_agree([pair.against, pair.change], _initial) for pair in pairs)
    return {"initial_weights": weights, "order_and_masks": order}


def _monitored(pairs: Sequence[Pair]) -> str:
    ours, theirs = ({getattr(pair, side).monitor for pair in pairs} for side in ("change", "against"))
    if len(ours | theirs) > 1:
        named = " and ".join(sorted(map(str, ours | theirs)))
        raise ValueError(f"the settings monitor different figures, {named}: choose one with --metric")
    (key,) = ours
    if key is None:
        raise ValueError("the runs monitor no figure: choose one with --metric, such as val/held_out/loss")
    return str(key)


def _logged(runs: Sequence[Run], measure: Measure) -> Measure:
    """The measure; raises ValueError for a run that has no such figure."""
    for run in runs:
        check_figure(run, measure.key)
        if not math.isfinite(run.final(measure.key) or 0.0):
            raise ValueError(f"{str(run.path)!r}: its {measure.key} is not a number, which has no difference")
    return measure


def _larger(runs: Sequence[Run], key: str) -> bool:
    first = runs[0]
    return first.larger_is_better if key in (first.monitor, "objective") else better_when(key) == "max"


def _check_same(runs: Sequence[Run], what: str, fact: Callable[[Run], object]) -> None:
    for run in runs[1:]:
        if fact(run) != fact(runs[0]):
            raise ValueError(
                f"{str(runs[0].path)!r} and {str(run.path)!r} differ in their {what} "
                f"({_shown(fact(runs[0]), fact(run))}), so their figures do not measure the same"
            )


def _shown(one: object, other: object) -> str:
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return f"{one} and {other}"
    return "; ".join(f"{name}: {was} and {is_now}" for name, was, is_now in islice(changes(one, other), 3))


def _agree(runs: Sequence[Run], fact: Callable[[Run], object]) -> bool:
    return all(fact(run) == fact(runs[0]) for run in runs)


def _trained_on(run: Run) -> object:
    objective = {name: value for name, value in run.settings.items() if name.startswith("objective.")}
    return comparable.inputs_of(run).get("data"), objective


def _initial(run: Run) -> object:
    model = {name: value for name, value in run.settings.items() if name.startswith("model.")}
    return model, comparable.inputs_of(run).get("tokenizer"), run.results.get("uniform_entropy")
