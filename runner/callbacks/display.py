"""Displays of progress: bars in a terminal, or plain lines."""

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text

from tiryns.runner.report.summary import clock


class Bars:
    """Bars that are redrawn in place, below what is printed meanwhile."""

    def __init__(self, seconds_per_refresh: float) -> None:
        self._seconds = seconds_per_refresh
        self._due = 0.0
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None, complete_style="cyan", finished_style="cyan"),
            StepColumn(),
            TextColumn("{task.fields[figures]}"),
            TextColumn("[dim]{task.fields[left]}"),
            console=Console(), auto_refresh=False, expand=True,
        )  # fmt: skip
        self._tasks: dict[str, TaskID] = {}

    def begin(self, name: str, total: int | None, step: int) -> None:
        """Adds a bar."""
        self._tasks[name] = self._bars.add_task(name, total=total, completed=step, figures="", left="")
        self._bars.start()
        self._bars.refresh()

    def is_due(self, name: str, step: int) -> bool:
        """Whether it is time to redraw."""
        return time.monotonic() >= self._due

    def update(self, name: str, step: int, figures: dict[str, str], seconds_left: float | None) -> None:
        """Redraws a bar."""
        self._due = time.monotonic() + self._seconds
        left = "" if seconds_left is None else f"{clock(seconds_left)} left"
        shown = "  ".join(f"[dim]{label}[/] {value}" if label else value for label, value in figures.items())
        self._bars.update(self._tasks[name], completed=step, figures=shown, left=left)
        self._bars.refresh()

    def end(self, name: str) -> None:
        """Removes a bar."""
        self._bars.remove_task(self._tasks.pop(name))
        self._bars.refresh()

    def say(self, text: str) -> None:
        """Prints a line above the bars."""
        self._bars.console.print(text, highlight=False, markup=False)

    def close(self) -> None:
        """Stops redrawing; the bars stay on the screen."""
        self._bars.stop()


class StepColumn(ProgressColumn):
    """Steps done of all steps, such as `120/1,000`."""

    def render(self, task: Task) -> Text:
        """The text for one bar."""
        total = "" if task.total is None else f"/{int(task.total):,}"
        return Text(f"{int(task.completed):,}{total}", style="bold")


class Lines:
    """Plain lines: at the first step, at each tenth of the run, and every so many seconds."""

    def __init__(self, seconds_per_line: float) -> None:
        self._seconds = seconds_per_line
        self._due = 0.0
        self._totals: dict[str, int | None] = {}
        self._shown: dict[str, int] = {}

    def begin(self, name: str, total: int | None, step: int) -> None:
        """Starts to count steps; an evaluation has a line only when it takes long."""
        self._totals[name], self._shown[name] = total, -1 if name == "train" else 0
        if name != "train":
            self._due = max(self._due, time.monotonic() + self._seconds)

    def is_due(self, name: str, step: int) -> bool:
        """Whether it is time for a line."""
        total = self._totals[name] if name == "train" else None
        if total and step * 10 // total > self._shown[name] * 10 // total:
            return True
        return time.monotonic() >= self._due

    def update(self, name: str, step: int, figures: dict[str, str], seconds_left: float | None) -> None:
        """Prints a line, unless this step had one."""
        if step == self._shown[name]:
            return
        self._due, self._shown[name] = time.monotonic() + self._seconds, step
        total = self._totals[name]
        words = ["step" if name == "train" else name, f"{step}" if total is None else f"{step}/{total}"]
        words += [f"{label} {value}".strip() for label, value in figures.items()]
        words += [] if seconds_left is None else [f"{clock(seconds_left)} left"]
        self.say(" ".join(words))

    def end(self, name: str) -> None:
        """Ends the count."""
        del self._totals[name], self._shown[name]

    def say(self, text: str) -> None:
        """Prints a line."""
        print(text, flush=True)

    def close(self) -> None:
        """Does nothing."""
