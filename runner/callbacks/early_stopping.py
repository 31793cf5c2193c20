"""Stops a run whose monitored metric no longer improves."""

import math

from lightning.pytorch import Callback, LightningModule, Trainer

from tiryns.runner import log
from tiryns.runner.evaluation.monitor import monitored_metric
from tiryns.runner.protocols import State


class EarlyStopping(Callback):
    """Stops the run after `patience` validations without an improvement of more than `min_delta`.

    `monitor` is a logged metric, None for the loss of the first validation set; `mode` is `min` or `max`. All ranks see
    the same figures and stop together.

    Example:
        >>> EarlyStopping(monitor="val/books/loss", mode="min", patience=3, min_delta=0.0).state_dict()
        {'best': None, 'waited': 0}
    """

    def __init__(self, monitor: str | None, mode: str, patience: int, min_delta: float) -> None:
        self.monitor, self.mode, self.patience, self.min_delta = monitor, mode, patience, min_delta
        self.best: float | None = None
        self.waited = 0

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Compares the metric with its best value; raises ValueError with the logged metrics where it is not logged."""
        if trainer.state.fn != "fit":
            return
        found = monitored_metric(trainer, self.monitor, "callback.early_stopping")
        if found is None:
            raise ValueError("callback.early_stopping.monitor is not set, and no validation loss is logged")
        monitor, value = found
        gain = (value - (self.best or 0.0)) * (1 if self.mode == "max" else -1)
        if math.isfinite(value) if self.best is None else gain > self.min_delta:
            self.best, self.waited = value, 0
            return
        self.waited += 1
        if self.waited >= self.patience:
            best = math.nan if self.best is None else self.best
            message = "stopping at step %d: %s has not improved on %.4f in %d validation%s"
            log.info(message, trainer.global_step, monitor, best, self.waited, "s" * (self.waited > 1))
            trainer.should_stop = True

    def state_dict(self) -> State:
        """The best value, and the validations since."""
        return {"best": self.best, "waited": self.waited}

    def load_state_dict(self, state_dict: State) -> None:
        """Restores the count of a resumed run."""
        self.best, self.waited = state_dict["best"], state_dict["waited"]


class StopAfter(Callback):
    """Ends a run after so many steps of its schedule, whose rates and order stay those of the whole run.

    Example: `tiryns callback=[default,stop_after] callback.stop_after.steps=100`
    """

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        """Stops at the step, on every rank."""
        if trainer.global_step >= self.steps:
            trainer.should_stop = True
