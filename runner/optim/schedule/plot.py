"""A schedule drawn before the run, in characters for the terminal."""

from iolaus.runner.optim.schedule.phases import ThreePhaseSchedule

BLOCKS = " ▁▂▃▄▅▆▇█"
NAMES = {"warmup": "warm-up", "training": "training", "cooldown": "cool-down"}


def drawn(schedule: ThreePhaseSchedule, max_steps: int, base_lr: float = 1.0) -> list[str]:
    """The rate over max_steps (at least 1) steps in lines of characters, and a line for each phase."""
    if max_steps < 1:
        raise ValueError(f"max_steps={max_steps} must be at least 1 to draw a schedule.")
    return [*_characters(schedule, max_steps, base_lr), "", *_phases(schedule, max_steps, base_lr)]


def _characters(schedule: ThreePhaseSchedule, max_steps: int, base_lr: float) -> list[str]:
    width, height = min(64, max_steps), 10
    steps = [round(i * (max_steps - 1) / max(width - 1, 1)) for i in range(width)]
    rates = [base_lr * schedule.factor(step) for step in steps]
    top = max(rates) or 1.0
    eighths = [round(rate / top * height * 8) for rate in rates]
    lines = []
    for row in reversed(range(height)):
        cells = "".join(BLOCKS[min(max(n - row * 8, 0), 8)] for n in eighths)
        label = f"{top:.2e}" if row == height - 1 else f"{top / 2:.2e}" if row == height // 2 else ""
        lines.append(f"{label:>9} │{cells}".rstrip())
    lines.append(f"{'0':>9} └{'─' * width}")
    last = str(max_steps - 1)
    lines.append(" " * 11 + ("0" + last.rjust(max(width - 1, len(last) + 1)) if max_steps > 1 else "0"))
    return lines


def _phases(schedule: ThreePhaseSchedule, max_steps: int, base_lr: float) -> list[str]:
    """A line per phase: its steps, and the rates at its start and end."""
    lines = []
    for phase in schedule.phases:
        end = max_steps if phase.end is None else phase.end
        first, last = base_lr * phase.factor(phase.start), base_lr * phase.factor(end)
        steps = f"{phase.start:>9,} to {end:<9,}"
        lines.append(f"{NAMES[phase.name]:<10} {phase.kind:<13} {steps} {first:.3g} to {last:.3g}")
    return lines or [f"{'training':<10} {'constant':<13} {0:>9,} to {max_steps:<9,} {base_lr:.3g}"]
