"""A callback that holds a run after chosen steps until a test lets it go on."""

import time
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from iolaus.runner.run import signals


class Gate(Callback):
    """Waits after each of `steps` until `folder` has a file of that number, or a signal comes."""

    def __init__(self, folder: str, steps: list[int]) -> None:
        self.folder, self.steps = Path(folder), steps

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        step = trainer.global_step
        while step in self.steps and not (self.folder / str(step)).exists() and signals.noted() is None:
            time.sleep(0.05)
