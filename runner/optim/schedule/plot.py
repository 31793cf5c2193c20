"""A schedule drawn before the run: as a PNG, and in characters for the terminal."""

from itertools import pairwise
from pathlib import Path

from iolaus.runner.optim.schedule.phases import Phase, ThreePhaseSchedule

BLOCKS = " ▁▂▃▄▅▆▇█"
SIZE = (960, 480)
"""Width and height of the picture, in pixels."""
MARGIN = (90, 30, 30, 70)
"""Left, top, right and bottom of the plot, in pixels."""
COLOURS = {"warmup": "#d97706", "training": "#2563eb", "cooldown": "#0f766e", "after": "#6b7280"}
NAMES = {"warmup": "warm-up", "training": "training", "cooldown": "cool-down"}


def draw_schedule(
    schedule: ThreePhaseSchedule, max_steps: int, path: Path | str, base_lr: float = 1.0
) -> str:
    """Writes the rate over max_steps steps to a PNG at path; returns a drawing of it in characters.

    base_lr is what the factors are multiplied with. Raises ValueError where max_steps is not positive.
    """
    if max_steps < 1:
        raise ValueError(f"max_steps={max_steps} must be at least 1 to draw a schedule.")
    _picture(schedule, max_steps, Path(path), base_lr)
    return "\n".join(drawn(schedule, max_steps, base_lr))


def drawn(schedule: ThreePhaseSchedule, max_steps: int, base_lr: float) -> list[str]:
    """The rate over max_steps steps in lines of characters, and a line for each phase."""
    return [*_characters(schedule, max_steps, base_lr), "", *_phases(schedule, max_steps, base_lr)]


def _rates(
    schedule: ThreePhaseSchedule, max_steps: int, base_lr: float, points: int
) -> list[tuple[int, float]]:
    """Steps, evenly spread from the first to the last, each with its rate."""
    points = min(points, max_steps)
    steps = [round(i * (max_steps - 1) / max(points - 1, 1)) for i in range(points)]
    return [(step, base_lr * schedule.factor(step)) for step in steps]


def _characters(
    schedule: ThreePhaseSchedule, max_steps: int, base_lr: float, width: int = 64, height: int = 10
) -> list[str]:
    rates = [rate for _, rate in _rates(schedule, max_steps, base_lr, width)]
    top = max(rates) or 1.0
    eighths = [round(rate / top * height * 8) for rate in rates]
    lines = []
    for row in reversed(range(height)):
        cells = "".join(BLOCKS[min(max(n - row * 8, 0), 8)] for n in eighths)
        label = f"{top:.2e}" if row == height - 1 else f"{top / 2:.2e}" if row == height // 2 else ""
        lines.append(f"{label:>9} │{cells}".rstrip())
    lines.append(f"{'0':>9} └{'─' * len(rates)}")
    last = str(max_steps - 1)
    lines.append(" " * 11 + ("0" + last.rjust(max(len(rates) - 1, len(last) + 1)) if max_steps > 1 else "0"))
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


def _picture(schedule: ThreePhaseSchedule, max_steps: int, path: Path, base_lr: float) -> None:
    from PIL import Image, ImageDraw, ImageFont

    left, top, right, bottom = MARGIN
    width, height = SIZE[0] - left - right, SIZE[1] - top - bottom
    points = _rates(schedule, max_steps, base_lr, width)
    highest = max(rate for _, rate in points) or 1.0

    def at(step: float, rate: float) -> tuple[float, float]:
        return left + width * step / max(max_steps - 1, 1), top + height * (1 - rate / highest)

    image = Image.new("RGB", SIZE, "white")
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(15)
    for part in range(5):
        x, y = at((max_steps - 1) * part / 4, highest * part / 4)
        draw.line([(left, y), (left + width, y)], fill="#e5e7eb")
        draw.text((left - 8, y), f"{highest * part / 4:.2e}", fill="black", font=font, anchor="rm")
        draw.text(
            (x, top + height + 8),
            f"{round((max_steps - 1) * part / 4):,}",
            fill="black",
            font=font,
            anchor="ma",
        )
    draw.text((left + width / 2, SIZE[1] - 14), "step", fill="black", font=font, anchor="ms")
    draw.text((left, 8), "learning rate", fill="black", font=font, anchor="la")
    for (step, rate), (following, next_rate) in pairwise(points):
        draw.line([at(step, rate), at(following, next_rate)], fill=_colour(schedule.phase(step)), width=3)
    x = left + width
    for phase in reversed(schedule.phases):
        draw.text((x, 8), NAMES[phase.name], fill=_colour(phase), font=font, anchor="ra")
        x -= draw.textlength(NAMES[phase.name], font=font) + 16
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, format="PNG")


def _colour(phase: Phase | None) -> str:
    return COLOURS[phase.name if phase is not None else "after"]
