"""Stops a run on a signal, at a given step, or if a metric no longer improves; shows that a run makes progress."""

import math
import signal
import time
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from tiryns.runner import log
from tiryns.runner.checkpoints.callback import Checkpoint, branches
from tiryns.runner.evaluation.monitor import monitored_metric
from tiryns.runner.protocols import State
from tiryns.runner.run import signals

KILLED_LOADER = (
    "a loader process was killed", "loader processes of energon were killed", "DataLoader worker (pid",
)  # fmt: skip
"""Prefixes of errors about killed loader processes; after an error with the first prefix, the last step can be saved."""


class Preemption(Callback):
    """Saves and ends the run after a step if any rank has received a signal before that step.

    A run of one process is also saved if its loader processes are killed again and again.

    Each step computes a sum over the ranks anyway. The votes to stop are part of this sum, so no rank waits for another.
    This must be the last callback, so that all other callbacks run for the last step too.
    """

    def __init__(self, saver: Checkpoint) -> None:
        self.saver = saver

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Defers signals."""
        if stage == "fit":
            signals.defer(True)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Stops deferring signals: from now on they end the run at once."""
        if stage == "fit" and not trainer.interrupted:
            signals.defer(False)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        """Votes for stopping if this rank has received a signal."""
        pl_module.votes["stop"] = float(signals.first() is not None)  # type: ignore[operator, index]

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *_: object
    ) -> None:
        """Saves and raises Stopped, on every rank, if any rank has voted for it."""
        alone = trainer.world_size == 1 and signals.first() is not None
        if not (alone or outputs["votes"]["stop"]):
            return
        self.saver.save_and_stop(trainer)
        loggers: list[Any] = trainer.loggers
        for logger in loggers:
            logger.mark_preempting()
        raise signals.Stopped(signals.first() or signal.SIGTERM, saved=True)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Saves the last finished step if loaders were killed and there is one rank: several could not save together."""
        if trainer.world_size == 1 and str(exception).startswith(KILLED_LOADER[0]) and trainer.global_step:
            self.saver.save_and_stop(trainer)


class Heartbeat(Callback):
    """Touches a file while the run trains, at most once a second; the file exists only while the run trains.

    Example:
        >>> trainer = Trainer(callbacks=[Heartbeat(Path("run/.heartbeat-0"))])
    """

    def __init__(self, file: Path) -> None:
        self.file, self._last = file, 0.0

    def beat(self, *_: object, **__: object) -> None:
        """Signals that this rank makes progress."""
        if (now := time.monotonic()) - self._last >= 1.0:
            self.file.touch()
            self._last = now

    on_train_batch_start = on_train_batch_end = on_validation_batch_end = on_save_checkpoint = beat

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Removes the file: work after training may take as long as it needs."""
        self.file.unlink(missing_ok=True)


class EarlyStopping(Callback):
    """Stops the run after `patience` validations without an improvement of more than `min_delta`.

    `monitor` is a logged metric, None for the loss of the first validation set; `mode` is `min` or `max`. All ranks see
    the same metrics and stop together.

    Example:
        >>> EarlyStopping(monitor="val/books/loss", mode="min", patience=3, min_delta=0.0).state_dict()
        {'best': None, 'waited': 0, 'monitor': 'val/books/loss'}
    """

    def __init__(self, monitor: str | None, mode: str, patience: int, min_delta: float) -> None:
        self.monitor, self.mode, self.patience, self.min_delta = monitor, mode, patience, min_delta
        self.best: float | None = None
        self.waited = 0

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: State) -> None:
        """Starts anew in a branch, whose settings differ."""
        if branches(trainer):
            checkpoint["callbacks"].pop(self.state_key, None)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stops a run that was stopped before, but did not end."""
        trainer.should_stop |= self.waited >= self.patience

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Compares the metric with its best value; raises ValueError, listing the logged metrics, if it is not logged."""
        if trainer.state.fn != "fit":
            return
        metric = monitored_metric(trainer, self.monitor, "callback.early_stopping")
        if metric is None:
            raise ValueError("callback.early_stopping.monitor is not set, and no validation loss is logged")
        monitor, value = metric
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
        """Returns the best value, the number of validations since then, and the metric."""
        return {"best": self.best, "waited": self.waited, "monitor": self.monitor}

    def load_state_dict(self, state_dict: State) -> None:
        """Restores the state, unless it is of another metric."""
        if state_dict.get("monitor", self.monitor) == self.monitor:
            self.best, self.waited = state_dict["best"], state_dict["waited"]


class StopAfter(Callback):
    """Ends a run after `steps` steps of its schedule; learning rates and order stay those of the whole run.

    Example: `tiryns callback=[default,stop_after] callback.stop_after.steps=100`
    """

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        """Stops at the step, on every rank."""
        if trainer.global_step >= self.steps:
            trainer.should_stop = True

    on_train_start = on_train_batch_end
