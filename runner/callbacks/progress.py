"""Progress on screen: a bar in a terminal, plain lines where the output goes to a file or a pipe."""

import math
import sys
import time
from collections.abc import Mapping
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ProgressBar

from iolaus.runner.callbacks.display import Bars, Lines
from iolaus.runner.callbacks.throughput import Throughput


class Progress(ProgressBar):
    """Steps done, loss, learning rate, real tokens per second and the time left; on the main process only.

    The loss is read from the device only when the display is refreshed.
    """

    def __init__(self, refresh_per_second: float, seconds_per_line: float) -> None:
        super().__init__()
        self._enabled = True
        self._seconds_per_refresh, self._seconds_per_line = 1 / refresh_per_second, seconds_per_line
        self._display: Bars | Lines | None = None
        self._evaluating, self._evaluated = "", 0
        self._outputs: Any = None
        self._rate: Any = None
        self._step = self._first_step = self._shown = 0
        self._timed_since: float | None = None

    def disable(self) -> None:
        """Shows nothing from now on."""
        self._enabled = False

    def enable(self) -> None:
        """Shows progress again."""
        self._enabled = True

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Opens the bar, at the resumed step where the run goes on."""
        self._step = self._first_step = self._shown = trainer.global_step
        self._outputs, self._timed_since = None, None
        if self._enabled:
            self._open().begin("train", _total_steps(trainer), self._step)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Notes the learning rate of the step, which the schedule changes before the step's end."""
        self._rate = trainer.optimizers[0].param_groups[0]["lr"] if trainer.optimizers else None

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *_: Any) -> None:
        """Refreshes when due; a step without a refresh costs a look at the clock."""
        if self._timed_since is None:  # the first step also compiles and fills buffers, so it is left out
            self._first_step, self._timed_since = trainer.global_step, time.monotonic()
        self._outputs, self._step = outputs, trainer.global_step
        if self._display is not None and self._display.is_due("train", self._step):
            self._refresh(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Shows the last step."""
        if self._display is not None and self._step != self._shown:
            self._refresh(trainer)
        self._outputs = None
        self._close()

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Opens a bar for the validation."""
        self._begin_evaluation("validation", trainer.num_val_batches)

    def on_validation_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Advances the bar of the validation, or of the test."""
        self._evaluated += 1
        display, name = self._display, self._evaluating
        if display is not None and name and display.is_due(name, self._evaluated):
            display.update(name, self._evaluated, {}, None)

    on_test_batch_end: Any = on_validation_batch_end

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Closes the validation's bar and prints what was found."""
        self._end_evaluation(trainer, "val/")

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Opens a bar for the test."""
        self._begin_evaluation("test", trainer.num_test_batches)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Closes the test's bar and prints what was found."""
        self._end_evaluation(trainer, "test/")

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Leaves the terminal in order for the message that follows."""
        self._close()

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Leaves the terminal in order."""
        self._close()

    def _open(self) -> Bars | Lines:
        if self._display is None:
            bars = sys.stdout.isatty()
            self._display = Bars(self._seconds_per_refresh) if bars else Lines(self._seconds_per_line)
        return self._display

    def _close(self) -> None:
        if self._display is not None:
            self._display.close()
        self._display, self._evaluating = None, ""

    def _refresh(self, trainer: Trainer) -> None:
        assert self._display is not None
        total, done, left = _total_steps(trainer), self._step - self._first_step, None
        if total is not None and self._timed_since is not None and done > 0:
            left = (time.monotonic() - self._timed_since) / done * (total - self._step)
        self._display.update("train", self._step, _figures(trainer, self._outputs, self._rate), left)
        self._shown = self._step

    def _begin_evaluation(self, name: str, num_batches: int | float | list[int | float]) -> None:
        if self._enabled:
            total = sum(num_batches) if isinstance(num_batches, list) else num_batches
            self._evaluating, self._evaluated = name, 0
            self._open().begin(name, int(total) if math.isfinite(total) else None, 0)

    def _end_evaluation(self, trainer: Trainer, prefix: str) -> None:
        if self._display is None or not self._evaluating:
            return
        self._display.end(self._evaluating)
        self._evaluating = ""
        metrics = trainer.callback_metrics.items()
        figures = " ".join(f"{name} {float(value):.4f}" for name, value in metrics if name.startswith(prefix))
        if figures and not trainer.sanity_checking:
            self._display.say(f"step {trainer.global_step} {figures}")
        if trainer.state.fn != "fit":
            self._close()


def _total_steps(trainer: Trainer) -> int | None:
    """Steps of the whole run by `max_steps`, else by epochs; None where the end is open."""
    if trainer.max_steps >= 0:
        return trainer.max_steps
    batches, epochs = trainer.num_training_batches, trainer.max_epochs
    if epochs is None or epochs < 0 or not math.isfinite(batches):
        return None
    return int(batches) * epochs


def _figures(trainer: Trainer, outputs: Any, rate: Any) -> dict[str, str]:
    """Loss, learning rate and speed as text; what is not known is left out."""
    figures = {}
    if isinstance(outputs, Mapping) and outputs.get("loss") is not None:
        figures["loss"] = f"{float(outputs['loss']):.3f}"
    if rate is not None:
        figures["lr"] = f"{float(rate):.1e}"
    throughput = next((c for c in trainer.callbacks if isinstance(c, Throughput)), None)  # type: ignore[attr-defined]
    if throughput is not None and not math.isnan(throughput.tokens_per_second):
        figures[""] = f"{throughput.tokens_per_second:,.0f} tok/s"
    return figures
