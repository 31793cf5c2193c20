"""A schedule drawn before the run, in characters for the terminal or as numbers."""

from collections.abc import Mapping
from typing import Any

from tiryns.runner.optim.schedule.chain import Schedule, ScheduleChain
from tiryns.runner.optim.schedule.phases import Phase

BLOCKS = " ▁▂▃▄▅▆▇█"
NAMES = {"warmup": "warm-up", "training": "training", "cooldown": "cool-down"}


def numbers(schedule: Schedule, max_steps: int, base_lr: float = 1.0) -> dict[str, Any]:
    """Returns `steps`, `lr`, `phases` with their first and last step and rate, and `rates` at up to 64 steps, from 0.

    In a run with phases each part of a schedule also has the `phase` of the run to which it belongs.
    """
    if max_steps < 1:
        raise ValueError(f"max_steps={max_steps} must be at least 1 to draw a schedule.")
    width = min(64, max_steps)
    steps = [round(i * (max_steps - 1) / max(width - 1, 1)) for i in range(width)]
    phases = []
    for phase in schedule.phases or [Phase("training", "constant", 0, max_steps, 1.0, 1.0)]:
        end = max_steps if phase.end is None else phase.end
        first, last = base_lr * phase.factor(phase.start), base_lr * phase.factor(end)
        within = {"phase": schedule.name_at(phase.start)} if isinstance(schedule, ScheduleChain) else {}
        steps_and_rates = {"first_step": phase.start, "last_step": end, "first_lr": first, "last_lr": last}
        phases.append({**within, "name": phase.name, "kind": phase.kind, **steps_and_rates})
    return {
        "steps": max_steps,
        "lr": base_lr,
        "phases": phases,
        "rates": [{"step": step, "lr": base_lr * schedule.factor(step)} for step in steps],
    }


def in_characters(drawing: Mapping[str, Any]) -> list[str]:
    """Returns the `numbers` of a schedule in lines: a picture, and a line for each phase."""
    rates, height = [each["lr"] for each in drawing["rates"]], 10
    top = max(rates) or 1.0
    eighths = [round(rate / top * height * 8) for rate in rates]
    lines = []
    for row in reversed(range(height)):
        cells = "".join(BLOCKS[min(max(n - row * 8, 0), 8)] for n in eighths)
        label = f"{top:.2e}" if row == height - 1 else f"{top / 2:.2e}" if row == height // 2 else ""
        lines.append(f"{label:>9} │{cells}".rstrip())
    lines.append(f"{'0':>9} └{'─' * len(rates)}")
    last = str(drawing["steps"] - 1)
    below = "0" + last.rjust(max(len(rates) - 1, len(last) + 1)) if drawing["steps"] > 1 else "0"
    names = [": ".join(filter(None, (each.get("phase"), NAMES[each["name"]]))) for each in drawing["phases"]]
    width = max(10, *map(len, names))
    phases = [
        f"{name:<{width}} {each['kind']:<13} {each['first_step']:>9,} to {each['last_step']:<9,} "
        f"{each['first_lr']:.3g} to {each['last_lr']:.3g}"
        for name, each in zip(names, drawing["phases"], strict=True)
    ]
    return [*lines, " " * 11 + below, "", *phases]
