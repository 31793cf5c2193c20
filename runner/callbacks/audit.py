"""Writes the order audit while a run trains."""

from pathlib import Path
from typing import Any, TextIO

from lightning.pytorch import Callback, LightningModule, Trainer

from iolaus.runner.run.audit import FILE_NAME, whole_lines
from iolaus.runner.run.files import replacing


class OrderAudit(Callback):
    """Writes the hash of every global batch to `order.txt` in the run folder; main process only.

    A resumed run drops the lines after its checkpoint and writes them again. Example: `iolaus ~callback.audit`
    """

    _file: TextIO | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Keeps the lines of the steps before a resume, and appends to them."""
        if trainer.is_global_zero:
            path = Path(trainer.default_root_dir) / FILE_NAME
            kept = "".join(f"{line}\n" for line in whole_lines(path)[: trainer.global_step])
            with replacing(path) as temporary:
                temporary.write_text(kept)
            self._file = path.open("a", buffering=1)  # one line, one write

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *_: Any) -> None:
        """Adds a line."""
        if self._file is not None:
            self._file.write(f"{trainer.global_step} {outputs['order']}\n")

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
