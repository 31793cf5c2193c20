"""The phases of a run on its page: their spans in the charts, and a table with the facts of each phase."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tiryns.conf.phases import CHANGED
from tiryns.runner.report import page
from tiryns.runner.report.curves import Chart, of_set
from tiryns.runner.report.summary import validation_set
from tiryns.runner.run.folder import Run

NAMED = {
    "data.max_length": "sequence length",
    "sampler.global_batch_size": "batch",
    "optimizer.weight_decay": "weight decay",
    "objective.mlm_probability": "masking rate",
}
"""Titles of columns for settings that a table shows if the run has them. It shows other settings if a phase sets them."""


class RunPhase(NamedTuple):
    """A phase of a run: the steps (first, last], and the settings that it changes, by dotted name."""

    name: str
    first: int
    last: int
    tokens: int | None
    settings: Mapping[str, object]


def phases_of_run(run: Run) -> list[RunPhase]:
    """Returns the phases of a run by its status and config; empty if it has none or its status is damaged."""
    records, configs = run.status.get("phases"), run.settings.get("phases")
    phases: list[RunPhase] = []
    for number, each in enumerate(records if isinstance(records, list) else []):
        if not isinstance(each, dict) or not isinstance(each.get("steps"), int):
            return []
        config = configs[number] if isinstance(configs, list) and number < len(configs) else {}
        settings = {
            f"{group}.{name}": value
            for group in CHANGED
            for name, value in (config.get(group) or {} if isinstance(config, dict) else {}).items()
        }
        first, tokens = phases[-1].last if phases else 0, each.get("tokens")
        num_tokens = tokens if isinstance(tokens, int) else None
        phases.append(RunPhase(str(each.get("name")), first, first + each["steps"], num_tokens, settings))
    return phases


def with_phases(charts: Iterable[Chart], phases: Sequence[RunPhase]) -> list[Chart]:
    """Returns the charts. If there are several phases, charts over the steps get their spans."""
    spans = tuple((phase.name, phase.first, phase.last) for phase in phases)
    return [replace(c, spans=spans) if c.across == "step" and len(spans) > 1 else c for c in charts]


def shared_phases(runs: Sequence[Run]) -> list[RunPhase]:
    """Returns the phases of several runs if all have the same names at the same steps; else empty."""
    each = [phases_of_run(run) for run in runs]
    places = {tuple((phase.name, phase.first, phase.last) for phase in phases) for phases in each}
    return each[0] if len(places) == 1 else []


def phases_table(run: Run) -> page.Part:
    """Returns steps, tokens, settings, learning rate and validation losses of each phase; empty without phases."""
    phases = phases_of_run(run)
    if not phases:
        return {}
    columns = [name for name in NAMED if _value(run, phases[0], name) is not None]
    names = dict.fromkeys(name for phase in phases for name in phase.settings)
    present = (*NAMED, "optimizer.lr")  # the learning rate tells its own settings
    columns += [name for name in names if name not in present and not name.startswith("scheduler.")]
    sets = {key: name for key in run.series if (name := validation_set(key)) is not None}
    heads = ["phase", "steps", "tokens", "learning rate", *(NAMED.get(name, name) for name in columns)]
    heads += [of_set("validation loss", name, sets) for name in sets.values()]
    rate = next((key for key in run.series if key.startswith("optim/lr/")), "")
    rows = []
    for phase in phases:
        rates = [f"{value:.3g}" for value in _values_between(run, rate, phase.first, phase.last)]
        row: list[object] = [phase.name, f"{phase.first + 1:,} to {phase.last:,}", phase.tokens]
        row += [" to ".join(dict.fromkeys([*rates[:1], *rates[-1:]]))]
        row += [_text_of(_value(run, phase, name)) for name in columns]
        row += [next(iter(_values_between(run, key, phase.last - 1, phase.last)), None) for key in sets]
        rows.append(row)
    return page.table(heads, rows, sorts=False)


def _value(run: Run, phase: RunPhase, name: str) -> object:
    """Returns a setting of a phase, else of the run. A run's mapping counts as None; only its entries have values."""
    return phase.settings.get(name, run.settings.get(name))


def _text_of(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {part}" for name, part in value.items())
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _values_between(run: Run, key: str, after: int, last: int) -> list[float]:
    """Returns the values of a metric logged in the steps (after, last]."""
    if key not in run.series:
        return []
    series = run.series[key]
    inside = (series.steps > after) & (series.steps <= last) & np.isfinite(series.values)
    return [float(value) for value in series.values[inside]]
