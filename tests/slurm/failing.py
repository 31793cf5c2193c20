"""A callback that fails on one rank alone, which must not leave the others waiting."""

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer


class FailsOnLastRank(Callback):
    """Raises ValueError after a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        if trainer.global_step == self.step and trainer.global_rank == trainer.world_size - 1:
            raise ValueError("the last rank has had enough")
