"""What a run is told, and tells: a signal stops it with a checkpoint, and a file says that it trains."""

import signal
import time
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from tiryns.runner.checkpoints.callback import Checkpoint
from tiryns.runner.run import signals

KILLED_LOADER = (
    "a loader process was killed", "loader processes of energon were killed", "DataLoader worker (pid",
)  # fmt: skip
"""How errors begin that say that loader processes were killed; after the first the last step can be saved."""

SECONDS_BETWEEN = 1.0
"""Seconds between two signs of life."""


class Preemption(Callback):
    """Saves and ends the run at the end of a step before which any rank has received a signal.

    A run of one process is also saved where its loader processes are killed again and again.

    The ranks vote in the sum over ranks that each step makes anyway, so that no rank waits for another. It must be the
    last callback, so that the others see the step.
    """

    def __init__(self, saver: Checkpoint) -> None:
        self.saver = saver

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Defers signals."""
        if stage == "fit":
            signals.defer(True)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Lets signals end the run at once again."""
        if stage == "fit" and not trainer.interrupted:
            signals.defer(False)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        """Votes for stopping where this rank has received a signal."""
        pl_module.votes["stop"] = float(signals.noted() is not None)  # type: ignore[operator, index]

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *_: Any) -> None:
        """Saves and raises Stopped, on every rank, if any rank has voted for it."""
        alone = trainer.world_size == 1 and signals.noted() is not None
        if not (alone or outputs["votes"]["stop"]):
            return
        self.saver.save_and_stop(trainer)
        loggers: list[Any] = trainer.loggers
        for logger in loggers:
            logger.mark_preempting()
        raise signals.Stopped(signals.noted() or signal.SIGTERM, saved=True)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Saves the step that is done, where loader processes were killed; several ranks could not do it together."""
        if trainer.world_size == 1 and str(exception).startswith(KILLED_LOADER[0]) and trainer.global_step:
            self.saver.save_and_stop(trainer)


class Heartbeat(Callback):
    """Sets the time of a file while the run trains, at most once a second; the file is there as long as it trains.

    Example:
        >>> trainer = Trainer(callbacks=[Heartbeat(Path("run/.heartbeat-0"))])
    """

    def __init__(self, file: Path) -> None:
        self.file, self._last = file, 0.0

    def beat(self, *_: object, **__: object) -> None:
        """Tells that this rank is at work."""
        if (now := time.monotonic()) - self._last >= SECONDS_BETWEEN:
            self.file.touch()
            self._last = now

    on_train_batch_start = on_train_batch_end = on_validation_batch_end = on_save_checkpoint = beat

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Takes the file away: what follows training may take as long as it needs."""
        self.file.unlink(missing_ok=True)
