"""A callback that sends its own process a signal, at a step of the test's choice."""

import os
import signal
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer


class Stop(Callback):
    """Sends a signal at the end of a step, before the callbacks that act on it."""

    def __init__(self, step: int, number: int = signal.SIGTERM) -> None:
        self.step, self.number = step, number

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        if trainer.global_step == self.step:
            os.kill(os.getpid(), self.number)
