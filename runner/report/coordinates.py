"""The coordinate check: how far each part of models of several widths has moved, and with which power of the width."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tiryns.runner.evaluation.statistics.scaling_law import transferred
from tiryns.runner.report.curves import Chart, dotted, over_powers
from tiryns.runner.run.files import COORDINATES
from tiryns.runner.run.folder import Run

Moves = Mapping[str, Mapping[str, Any]]


def width_of(run: Run) -> int:
    """The width of a run's model, 0 where its config has none."""
    return int(run.settings.get("model.hidden_size") or 0)


def coordinates_of(runs: Sequence[Run]) -> Moves:
    """For each part `moved`, by width and step, and `power`; empty for runs that have not measured it."""
    found = {}
    for name in (name for name in runs[0].series if name.startswith(COORDINATES)):
        moved = {width_of(run): run.series[name].values.tolist() for run in runs if name in run.series}
        last = [values[-1] for values in moved.values()]
        if len(last) > 1 and min(last) > 0:
            power = transferred([*moved], last).power
            found[name.removeprefix(COORDINATES)] = {"power": power, "moved": moved}
    return found


def coordinate_lines(found: Moves) -> Iterator[str]:
    """The power of each part, a sentence a line."""
    for name, each in found.items():
        yield f"{name} move with the width to the power {each['power']:+.2f}"


def coordinate_charts(found: Moves) -> Iterator[Chart]:
    """A chart for each part: how far it has moved over the width, a curve for a few of the steps."""
    for name, each in found.items():
        count = len(next(iter(each["moved"].values())))
        curves = []
        for colour, at in enumerate(sorted({1, (1 + count) // 2, count})):
            values = {width: moved[at - 1] for width, moved in each["moved"].items()}
            curves.append(dotted(f"step {at}", values, colour))
        yield over_powers(name, "root mean square of the change", "width", curves, from_zero=True)
