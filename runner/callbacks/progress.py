"""Progress on screen: a bar in a terminal, plain lines where the output goes to a file or a pipe."""

import math
import sys
import time
from collections.abc import Mapping
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ProgressBar
from lightning.pytorch.utilities.types import STEP_OUTPUT
from rich import progress as rich
from rich.console import Console
from torch import Tensor

from tiryns.runner.callbacks.throughput import Throughput
from tiryns.runner.report.summary import clock


class Bars:
    """Bars that are redrawn in place, below what is printed meanwhile."""

    def __init__(self, seconds_per_refresh: float) -> None:
        self._seconds = seconds_per_refresh
        self._due = 0.0
        self._bars = rich.Progress(
            rich.TextColumn("{task.description}"),
            rich.BarColumn(bar_width=None, complete_style="cyan", finished_style="cyan"),
            rich.TextColumn("[bold]{task.fields[steps]}"),
            rich.TextColumn("{task.fields[figures]}"),
            rich.TextColumn("[dim]{task.fields[left]}"),
            console=Console(), auto_refresh=False, expand=True,
        )  # fmt: skip
        self._tasks: dict[str, rich.TaskID] = {}
        self._totals: dict[str, str] = {}

    def begin(self, name: str, total: int | None, step: int) -> None:
        """Adds a bar."""
        self._totals[name] = "" if total is None else f"/{total:,}"
        steps = f"{step:,}{self._totals[name]}"
        self._tasks[name] = self._bars.add_task(
            name, total=total, completed=step, steps=steps, figures="", left=""
        )
        self._bars.start()
        self._bars.refresh()

    def is_due(self, name: str, step: int) -> bool:
        """Whether it is time to redraw."""
        return time.monotonic() >= self._due

    def update(self, name: str, step: int, figures: dict[str, str], seconds_left: float | None) -> None:
        """Redraws a bar."""
        self._due = time.monotonic() + self._seconds
        time_left = "" if seconds_left is None else f"{clock(seconds_left)} left"
        text = "  ".join(f"[dim]{label}[/] {value}" if label else value for label, value in figures.items())
        steps = f"{step:,}{self._totals[name]}"
        self._bars.update(self._tasks[name], completed=step, steps=steps, figures=text, left=time_left)
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


class Lines:
    """Plain lines: at the first step, at each tenth of the run, and every `seconds_per_line` seconds."""

    def __init__(self, seconds_per_line: float) -> None:
        self._seconds = seconds_per_line
        self._due = 0.0
        self._totals: dict[str, int | None] = {}
        self._shown: dict[str, int] = {}

    def begin(self, name: str, total: int | None, step: int) -> None:
        """Starts to count steps; an evaluation has a line only if it takes `seconds_per_line` or longer."""
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
        """Prints a line, unless this step already has a line."""
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


class Progress(ProgressBar):
    """Shows steps, loss, learning rate, tokens per second and time left; reads the loss only to refresh the display.

    Example: `tiryns callback.progress.seconds_per_line=60`
    """

    def __init__(self, refresh_per_second: float, seconds_per_line: float) -> None:
        super().__init__()
        self._enabled = True
        self._seconds_per_refresh, self._seconds_per_line = 1 / refresh_per_second, seconds_per_line
        self._display: Bars | Lines | None = None
        self._evaluating, self._evaluated = "", 0
        self._outputs: STEP_OUTPUT = None
        self._rate: float | None = None
        self._first_step = self._shown = 0
        self._timed_since: float | None = None

    def disable(self) -> None:
        self._enabled = False

    def enable(self) -> None:
        self._enabled = True

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Opens the bar at the first or resumed step."""
        self._outputs, self._timed_since, self._shown = None, None, trainer.global_step
        if self._enabled:
            self._open().begin("train", _total_steps(trainer), trainer.global_step)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        """Keeps the learning rate of the step, which the schedule changes before the step ends."""
        self._rate = trainer.optimizers[0].param_groups[0]["lr"] if trainer.optimizers else None

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, outputs: STEP_OUTPUT, *_: object) -> None:
        """Refreshes the display when due."""
        if self._timed_since is None:  # the first step also compiles and fills buffers, so it is left out
            self._first_step, self._timed_since = trainer.global_step, time.monotonic()
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else None
        on_device = isinstance(loss, Tensor) and loss.device.type != "cpu"
        if not on_device or trainer.global_step % pl_module.log_every == 0:
            self._outputs = outputs  # elsewhere the host would wait for a GPU
        if self._display is not None and self._display.is_due("train", trainer.global_step):
            self._refresh(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._display is not None and trainer.global_step != self._shown:
            self._refresh(trainer)
        self._outputs = None
        self.teardown()

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Opens a bar for the validation, or for the test."""
        if self._enabled:
            self._evaluating, self._evaluated = "test" if trainer.testing else "validation", 0
            total = sum(trainer.num_test_batches if trainer.testing else trainer.num_val_batches)
            self._open().begin(self._evaluating, int(total) if math.isfinite(total) else None, 0)

    on_test_start = on_validation_start

    def on_validation_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        """Advances the bar of the validation, or of the test."""
        self._evaluated += 1
        display, name = self._display, self._evaluating
        if display is not None and name and display.is_due(name, self._evaluated):
            display.update(name, self._evaluated, {}, None)

    on_test_batch_end: Any = on_validation_batch_end

    def on_validation_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Closes the bar of the validation, or of the test, and prints its metrics."""
        if self._display is None or not self._evaluating:
            return
        self._display.end(self._evaluating)
        prefix = "test/" if trainer.testing else "val/"
        metrics = trainer.callback_metrics.items()
        figures = " ".join(f"{name} {float(value):.4f}" for name, value in metrics if name.startswith(prefix))
        if figures and not trainer.sanity_checking:
            best = pl_module.best_step
            of = f"step {trainer.global_step}" if best is None else f"best weights, of step {best}:"
            self._display.say(f"{of} {figures}")
        self._evaluating = ""
        if trainer.state.fn != "fit":
            self.teardown()

    on_test_end = on_validation_end

    def teardown(self, *_: object, **__: object) -> None:
        if self._display is not None:
            self._display.close()
        self._display, self._evaluating = None, ""

    on_exception = teardown

    def _open(self) -> Bars | Lines:
        if self._display is None:
            bars = sys.stdout.isatty()
            self._display = Bars(self._seconds_per_refresh) if bars else Lines(self._seconds_per_line)
        return self._display

    def _refresh(self, trainer: Trainer) -> None:
        assert self._display is not None
        step, total, seconds_left = trainer.global_step, _total_steps(trainer), None
        if total is not None and self._timed_since is not None and step > self._first_step:
            seconds_left = (time.monotonic() - self._timed_since) / (step - self._first_step) * (total - step)
        figures, outputs = dict[str, str](), self._outputs
        if isinstance(outputs, Mapping) and outputs.get("loss") is not None:
            figures["loss"] = f"{float(outputs['loss']):.3f}"
        if self._rate is not None:
            figures["lr"] = f"{float(self._rate):.1e}"
        throughput = next((c for c in trainer.callbacks if isinstance(c, Throughput)), None)  # type: ignore[attr-defined]
        if throughput is not None and not math.isnan(throughput.tokens_per_second):
            figures[""] = f"{throughput.tokens_per_second:,.0f} tok/s"
        self._display.update("train", step, figures, seconds_left)
        self._shown = step


def _total_steps(trainer: Trainer) -> int | None:
    total = trainer.estimated_stepping_batches
    return int(total) if 0 <= total < math.inf else None
