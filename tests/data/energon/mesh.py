"""Four ranks, two replicas of two: what each reads, and what it would save, goes to a file of its own."""

import sys
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.strategies import ModelParallelStrategy

from tests.data.energon.sets import NumberedRows
from tiryns.runner.data.energon.module import EnergonMultiModalDataModule


class Reads(pl.LightningModule):
    """Notes the names of the samples it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.names: list[str] = []

    def configure_model(self) -> None:
        """Nothing to shard."""

    def training_step(self, batch: dict[str, Any], number: int) -> torch.Tensor:
        self.names += batch["names"]
        return self.weight.sum()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main(folder: str, out: Path) -> None:
    data = EnergonMultiModalDataModule(
        folder, None, None, micro_batch_size=2, num_workers=2, task_encoder=NumberedRows(),
        shuffle_buffer_size=5,
    )  # fmt: skip
    module = Reads()
    trainer = pl.Trainer(
        accelerator="cpu", devices=4, max_steps=4, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, limit_val_batches=0, use_distributed_sampler=False,
        strategy=ModelParallelStrategy(data_parallel_size=2, tensor_parallel_size=2, process_group_backend="gloo"),
    )  # fmt: skip

    class Saves(pl.Callback):
        def on_train_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
            rank = trainer.global_rank
            found = {
                "replica": data.data_parallel().rank, "names": module.names, "state": repr(data.state_dict()),
            }  # fmt: skip
            torch.save(found, out / f"rank-{rank}.pt")

    trainer.callbacks.append(Saves())  # type: ignore[attr-defined]
    trainer.fit(module, data)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
