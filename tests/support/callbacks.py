"""Callbacks that stop, kill or hold a run at a step of a test's choice."""

import os
import signal
import time
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from iolaus.runner.run import signals


class Stop(Callback):
    """Sends a signal at the end of a step, before the callbacks that act on it."""

    def __init__(self, step: int, number: int = signal.SIGTERM) -> None:
        self.step, self.number = step, number

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        if trainer.global_step == self.step:
            os.kill(os.getpid(), self.number)


class Dies(Callback):
    """Ends the process as the OOM killer would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        if trainer.global_step == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


class Gate(Callback):
    """Waits after each of `steps` until `folder` has a file of that number, or a signal comes."""

    def __init__(self, folder: str, steps: list[int]) -> None:
        self.folder, self.steps = Path(folder), steps

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        step = trainer.global_step
        while step in self.steps and not (self.folder / str(step)).exists() and signals.noted() is None:
            time.sleep(0.05)
