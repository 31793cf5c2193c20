"""Writes the order audit while a run trains."""

from pathlib import Path
from typing import Any, TextIO

from lightning.pytorch import Callback, LightningModule, Trainer

from iolaus.runner.run.audit import FILE_NAME, open_at


class OrderAudit(Callback):
    """Writes the hash of every global batch to `order.txt` in the run folder; main process only.

    A resumed run drops the lines after its checkpoint and writes them again. Example: `iolaus ~callback.audit`
    """

    _file: TextIO | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Keeps the lines of the steps before a resume, and appends to them."""
        if trainer.is_global_zero:
            self._file = open_at(Path(trainer.default_root_dir) / FILE_NAME, trainer.global_step)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *_: Any) -> None:
        """Adds a line."""
        if self._file is not None:
            self._file.write(f"{trainer.global_step} {outputs['order']}\n")

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
