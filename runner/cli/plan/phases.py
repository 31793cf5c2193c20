"""The phases of a run's plan: what each trains on, and what it has otherwise than the run."""

from collections.abc import Mapping
from typing import Any

from omegaconf import DictConfig

from tiryns.conf.phases import Phase
from tiryns.runner.loop.phases import phases_in
from tiryns.runner.optim.schedule.chain import timeline_of

OWN = ("model", "optimizer", "scheduler")
"""Groups of which the settings are shown that a phase has of its own."""


def phase_rows(config: DictConfig, data: Any) -> list[dict[str, Any]]:
    """The phases of a config whose lengths are settled, given its connected data; tokens are about as many."""
    phases = phases_in(config)
    timeline, rows = timeline_of(phases), []
    for place, phase in enumerate(phases):
        drawn = _drawn(data, phase, timeline.starts[place], timeline.ends[place])
        own = {name: value for group in OWN for name, value in getattr(phase, group).items()}
        rate = _masking(config.objective, phase)
        rows.append({"name": phase.name, "steps": phase.steps, **drawn, "masking": rate, "own": own})
    return rows


def _drawn(data: Any, phase: Phase, start: int, end: int) -> dict[str, Any]:
    """The tokens of a phase, the share of each source of a mixture in them, and the sizes of its batches."""
    order, stores = data.phased_order, data.stores
    if order is None:
        return {"tokens": None, "max_length": None, "batch": None, "shares": {}}
    names = [store.name for store in stores] or [""]
    sequences = [store.data.train for store in stores] or [data.train]
    tokens: dict[str, float] = dict.fromkeys(names, 0.0)
    for name, samples, count in zip(names, sequences, order.counts(end) - order.counts(start), strict=True):
        tokens[name] += int(count) * getattr(samples, "num_tokens", 0) / len(samples)
    total = sum(tokens.values())
    sizes = [order.samples_before(step + 1) - order.samples_before(step) for step in (start, end - 1)]
    return {
        "tokens": round(total) or None,
        "max_length": data.length_of(phase),
        "batch": sizes,
        "shares": {name: count / total for name, count in tokens.items() if name and count},
    }


def _masking(objective: Mapping[str, Any], phase: Phase) -> list[float] | None:
    """The share of tokens that are targets, at the beginning and the end of what it follows."""
    rate = {**objective, **phase.objective}
    if (first := rate.get("mlm_probability")) is None or rate.get("causal_share") == 1:
        return None
    last = rate.get("final_mlm_probability")
    return [first, first if last is None else last]


def phase_table(rows: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Heads and cells of a table of phases; columns that no phase has are left out."""
    cells = [
        {
            "phase": row["name"],
            "steps": f"{row['steps']:,}",
            "about tokens": f"{row['tokens']:,}" if row["tokens"] else "",
            "max_length": str(row["max_length"] or ""),
            "sequences": _range(row["batch"]),
            "masking": _range(row["masking"]),
            "sources": ", ".join(f"{name} {share:.1%}" for name, share in row["shares"].items()),
            "own settings": ", ".join(f"{name} {value}" for name, value in row["own"].items()),
        }
        for row in rows
    ]
    heads = [head for head in cells[0] if any(row[head] for row in cells)]
    return heads, [[row[head] for head in heads] for row in cells]


def _range(ends: list[Any] | None) -> str:
    return "" if ends is None else f"{ends[0]:g}" if ends[0] == ends[1] else f"{ends[0]:g} to {ends[1]:g}"
