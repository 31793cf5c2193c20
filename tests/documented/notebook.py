"""What a notebook would have: a few texts, sizes of a model, and small helpers."""

import random
from typing import Any

import lightning
import torch

WORDS = "the a river runs under old bridge while seven herons watch and nobody speaks of winter again what stands here"
VOCABULARY = 160
SIZES: dict[str, Any] = {
    "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
    "max_position_embeddings": 64,
}  # fmt: skip


def texts(count: int, seed: int = 0) -> list[str]:
    """Texts of 2 to 30 words, all different."""
    draw = random.Random(seed)
    return [
        f"{' '.join(draw.choices(WORDS.split(), k=draw.randint(1, 29)))} {number}" for number in range(count)
    ]


TEXTS = texts(40)


class Noted(lightning.Callback):
    """Keeps the batches that were trained on, and rates and losses after each."""

    def __init__(self) -> None:
        self.batches: list[torch.Tensor] = []
        self.rates: list[float] = []
        self.losses: list[float] = []

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, number: int) -> None:
        self.batches.append(batch["input_ids"].clone())
        self.rates.append(trainer.optimizers[0].param_groups[0]["lr"])

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, number: int) -> None:
        self.losses.append(float(outputs["loss"]))


def parameters(module: torch.nn.Module) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in module.parameters()]


def same(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> bool:
    return all(a.shape == b.shape and torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
