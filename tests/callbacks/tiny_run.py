"""A Trainer run small enough for a test, with hooks to slow its parts down."""

from collections.abc import Callable
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.loggers import Logger
from torch.utils.data import DataLoader, Dataset

from tiryns.runner.protocols import RunModule


class Numbers(Dataset[torch.Tensor]):
    def __init__(self, length: int, on_read: Callable[[], object] = lambda: None) -> None:
        self.length, self.on_read = length, on_read

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        self.on_read()
        return torch.ones(2)


class TinyModule(LightningModule, RunModule):
    """Steps once per batch, reports as the project's modules do, and logs its loss."""

    def __init__(
        self, on_step: Callable[[], object] = lambda: None, on_evaluation: Callable[[], object] = lambda: None
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(2, 1)
        self.on_step, self.on_evaluation = on_step, on_evaluation
        self.loss_of: Callable[[torch.Tensor], Any] = lambda loss: loss.detach()
        self.counts: dict[str, float] = {"tokens": 30, "padded_tokens": 40}

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> dict[str, Any]:
        optimizer: Any = self.optimizers()
        loss = self.layer(batch).square().mean()
        optimizer.zero_grad()
        self.manual_backward(loss)
        optimizer.step()
        self.on_step()
        for logger in self.loggers:
            logger.log_metrics({"train/loss": float(loss.detach())}, self.trainer.global_step)
        return {"loss": self.loss_of(loss), **self.counts}

    def validation_step(self, batch: torch.Tensor, batch_idx: int) -> None:
        self.on_evaluation()
        self.log("val/validation/loss", self.layer(batch).square().mean())

    def test_step(self, batch: torch.Tensor, batch_idx: int) -> None:
        self.log("test/loss", self.layer(batch).square().mean())


def loader(length: int, on_read: Callable[[], object] = lambda: None) -> DataLoader[torch.Tensor]:
    return DataLoader(Numbers(length, on_read), batch_size=1)


def tiny_trainer(
    max_steps: int, callbacks: list[Any], logger: Logger | None = None, **options: Any
) -> Trainer:
    settings: dict[str, Any] = {"num_sanity_val_steps": 0, "limit_val_batches": 0.0} | options
    return Trainer(
        accelerator="cpu", max_steps=max_steps, callbacks=callbacks, logger=logger or False,
        enable_checkpointing=False, enable_model_summary=False, **settings,
    )  # fmt: skip
