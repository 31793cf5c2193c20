"""Components that know nothing of this project, as users have them."""

from typing import Any

import torch
from lightning.pytorch import Callback, LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForMaskedLM


class Points(LightningDataModule):
    """Points on a line, with noise."""

    def __init__(self, count: int = 64, batch_size: int = 8) -> None:
        super().__init__()
        self.count, self.batch_size = count, batch_size

    def setup(self, stage: str) -> None:
        inputs = torch.linspace(-1, 1, self.count).unsqueeze(1)
        self.points = TensorDataset(inputs, 2 * inputs + 1)

    def train_dataloader(self) -> DataLoader[Any]:
        return DataLoader(self.points, batch_size=self.batch_size, shuffle=True)

    def val_dataloader(self) -> DataLoader[Any]:
        return DataLoader(self.points, batch_size=self.batch_size)


class Line(LightningModule):
    """A line that is fitted with an optimizer of its own."""

    def __init__(self, lr: float = 0.1) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.layer = nn.Linear(1, 1)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        loss = nn.functional.mse_loss(self.layer(batch[0]), batch[1])
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self.log("val_loss", nn.functional.mse_loss(self.layer(batch[0]), batch[1]))

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=self.hparams["lr"])


class GroupsLine(Line):
    """A line with the optimizer and the schedule of the config."""

    def __init__(self, optimizer: Any, scheduler: Any, max_steps: int) -> None:
        super().__init__()
        self.make_optimizer, self.make_scheduler, self.steps = optimizer, scheduler, max_steps

    def configure_optimizers(self) -> Any:
        optimizer = self.make_optimizer(model=self)
        scheduler = self.make_scheduler(optimizer=optimizer, max_steps=self.steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


class ShareModule(LightningModule):
    """Trains on our global batches by Lightning's own loop."""

    def __init__(self, model: nn.Module, lr: float = 1e-3) -> None:
        super().__init__()
        self.model, self.lr = model, lr

    def training_step(self, batch: dict[str, Any], batch_idx: int) -> Tensor:
        losses = [self.model(micro_batch)["loss"] for micro_batch in batch["micro_batches"]]
        loss = torch.stack(losses).sum() / batch["weight"]
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch: dict[str, Any], batch_idx: int) -> None:
        losses = [self.model(micro_batch)["loss"] for micro_batch in batch["micro_batches"]]
        self.log("val/loss", torch.stack(losses).sum() / batch["weight"])

    def configure_optimizers(self) -> Any:
        return torch.optim.AdamW(self.parameters(), lr=self.lr)


class Encoder(LightningModule):
    """A module that makes its own model of transformers."""

    def __init__(self) -> None:
        super().__init__()
        config = BertConfig(
            vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8
        )
        self.bert = BertForMaskedLM(config)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        ids = torch.zeros(len(batch[0]), 3, dtype=torch.long)
        loss: Tensor = self.bert(input_ids=ids, labels=ids).loss
        return loss

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Tail(Callback):
    """Notes the steps that it sees."""

    steps: list[int] = []  # noqa: RUF012  the class is read after a run

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        self.steps.append(trainer.global_step)


class Ones:
    """Documents that are merely iterable."""

    def __iter__(self) -> Any:
        return (f"one {i} two {i} three four five six" for i in range(200))
