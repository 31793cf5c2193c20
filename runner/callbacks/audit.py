"""Writes the order audit while a run trains."""

from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from iolaus.runner.run.audit import OrderLog


class OrderAudit(Callback):
    """Writes the hash of every global batch to `order.txt` in the run folder; main process only."""

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Opens the log at the step the run starts or continues from."""
        self._log = OrderLog(Path(trainer.default_root_dir))
        if trainer.is_global_zero:
            self._log.open_at(trainer.global_step)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *_: Any) -> None:
        """Notes the global batch that was trained on."""
        if trainer.is_global_zero:
            self._log.write(trainer.global_step, outputs["order"])

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Closes the log."""
        self._log.close()
