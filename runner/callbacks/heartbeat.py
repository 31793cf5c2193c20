"""Tells the agent that supervises the ranks of a node that this one makes progress."""

import time
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

SECONDS_BETWEEN = 1.0


class Heartbeat(Callback):
    """Sets the time of a file while the run trains, at most once a second; the file is there as long as it trains.

    Example:
        >>> trainer = Trainer(callbacks=[Heartbeat(Path("run/.heartbeat-0"))])
    """

    def __init__(self, file: Path) -> None:
        self.file, self._last = file, 0.0

    def beat(self, *_: Any, **__: Any) -> None:
        """Tells that this rank is at work."""
        if (now := time.monotonic()) - self._last >= SECONDS_BETWEEN:
            self.file.touch()
            self._last = now

    on_train_batch_start = on_train_batch_end = on_validation_batch_end = on_save_checkpoint = beat

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Takes the file away: what follows training may take as long as it needs."""
        self.file.unlink(missing_ok=True)
