"""Ends a run whose monitored metric has stopped getting better."""

import logging
import math
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

log = logging.getLogger("iolaus")


class EarlyStopping(Callback):
    """Counts validations without improvement, and stops the run after `patience` of them.

    `monitor` is a logged metric, None for the loss of the first validation set; `mode` is `min` or `max`; an improvement
    below `min_delta` does not count. All ranks see the same figures and stop together.
    """

    def __init__(self, monitor: str | None, mode: str, patience: int, min_delta: float) -> None:
        self.monitor, self.mode, self.patience, self.min_delta = monitor, mode, patience, min_delta
        self.best: float | None = None
        self.waited = 0

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Looks at the metric.

        Raises:
            ValueError: it is not logged; the message names those that are.
        """
        if trainer.state.fn != "fit":
            return
        metrics = trainer.callback_metrics
        losses = (name for name in metrics if name.startswith("val") and name.endswith("loss"))
        monitor = self.monitor or next(losses, "")
        if monitor not in metrics:
            raise ValueError(
                f"callback.early_stopping.monitor={monitor} is not logged; there are: {', '.join(sorted(metrics))}"
            )
        value = float(metrics[monitor])
        if self._better(value):
            self.best, self.waited = value, 0
            return
        self.waited += 1
        if self.waited >= self.patience:
            best = math.nan if self.best is None else self.best
            said = "stopping at step %d: %s has not got better than %.4f in %d validations"
            log.info(said, trainer.global_step, monitor, best, self.waited)
            trainer.should_stop = True

    def state_dict(self) -> dict[str, Any]:
        """The best value and how long it has stood."""
        return {"best": self.best, "waited": self.waited}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on counting where the run was interrupted."""
        self.best, self.waited = state_dict["best"], state_dict["waited"]

    def _better(self, value: float) -> bool:
        if self.best is None:
            return math.isfinite(value)
        gain = self.best - value if self.mode == "min" else value - self.best
        return gain > self.min_delta
