"""A tiny BERT, batches that depend on the step alone, and the loop that every optimizer is run in."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.optim import Optimizer
from transformers import BertConfig, BertForMaskedLM

from tests.support import needs
from tiryns.runner.optim import ThreePhaseScheduler, get_optimizer, get_scheduler, loop_needs

VOCABULARY = 160
EIGHT_BIT = ("adagrad", "adam", "adamw", "lamb", "lars", "lion", "rmsprop", "sgd")
NAMES = (
    *EIGHT_BIT, "adafactor", "galore", "muon", "normuon", "soap", "sophiah", "splus", "stable_adamw",
    "shampoo",
)  # fmt: skip
QUICK: dict[str, dict[str, Any]] = {
    "adafactor": {"lr": 5e-2}, "galore": {"rank": 8, "update_proj_gap": 4}, "lamb": {"lr": 2e-2}, "lars": {"lr": 2.0},
    "lion": {"lr": 1e-3},
    "shampoo": {"preconditioning_compute_steps": 3, "start_preconditioning_step": 3, "block_size": 64},
    "soap": {"precondition_frequency": 3}, "sophiah": {"update_period": 3},
    "splus": {"inverse_steps": 3, "ema_rate": 0.9},
}  # fmt: skip
"""Settings with which a few steps pass through everything an optimizer does."""

VARIANTS = [pytest.param(name, False, id=name) for name in NAMES] + [
    pytest.param(name, True, id=f"{name}-8bit") for name in EIGHT_BIT
]


def tiny_bert(seed: int = 0, **settings: Any) -> BertForMaskedLM:
    """Two layers of 64, some matrices above and some below the 4096 values that 8-bit state begins with."""
    torch.manual_seed(seed)
    shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 96}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = BertConfig(vocab_size=VOCABULARY, max_position_embeddings=16, **{**shape, **dropout, **settings})
    return BertForMaskedLM(config)


def batch(step: int, rows: int = 4, length: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and targets of a step; the targets can be learnt: the id after the next."""
    generator = torch.Generator().manual_seed(step % 4)
    ids = torch.randint(VOCABULARY, (rows, length), generator=generator)
    return ids, (ids + 1) % VOCABULARY


def make(name: str, quantized: bool, model: torch.nn.Module, **settings: Any) -> Optimizer:
    """An optimizer that comes to everything it does within a few steps."""
    if quantized:
        needs.package("bitsandbytes")
    return get_optimizer(name, model, {**QUICK.get(name, {}), **settings}, quantized)


def train(
    model: BertForMaskedLM,
    optimizer: Optimizer,
    steps: range,
    scheduler: ThreePhaseScheduler | None = None,
    micro_batches: int = 2,
    after_step: Callable[[int], None] = lambda step: None,
) -> list[float]:
    """Trains on the batches of these steps, each cut into micro-batches; returns the losses."""
    losses = []
    needs = loop_needs(optimizer)
    for step in steps:
        ids, targets = batch(step)
        loss_of_step = 0.0
        with needs.step(step):
            for part, target in zip(ids.chunk(micro_batches), targets.chunk(micro_batches), strict=True):
                loss = model(part, labels=target).loss / micro_batches
                loss.backward(create_graph=needs.create_graph)
                needs.after_backward()
                loss_of_step += loss.item()
            optimizer.step()
        optimizer.zero_grad()
        after_step(step)
        if scheduler is not None:
            scheduler.step()
        losses.append(loss_of_step)
    return losses


def short_schedule(optimizer: Optimizer) -> ThreePhaseScheduler:
    """Warm-up, a stable phase and a cool-down within 12 steps."""
    return get_scheduler(optimizer, warmup_steps=4, warmup_decay=0.1, cooldown_steps=4, max_steps=12)


def state_bytes(optimizer: Optimizer) -> int:
    """Bytes of the state, without the quantisation levels that all 8-bit tensors share."""

    def size(value: Any) -> int:
        if isinstance(value, torch.Tensor):
            return value.numel() * value.element_size()
        if isinstance(value, dict):
            return sum(size(item) for key, item in value.items() if not str(key).startswith("qmap"))
        return sum(map(size, value)) if isinstance(value, list | tuple) else 0

    return size(optimizer.state_dict()["state"])


def averages_of_splus(saved: dict[str, Any], ema_rate: float) -> dict[str, torch.Tensor]:
    """The averaged weights in the saved state of splus, by their names in a checkpoint."""
    return {
        f"model.{name}": saved["state"][number]["ema"] / (1.0 - ema_rate ** group["step"])
        for group in saved["param_groups"]
        for name, number in zip(group["param_names"], group["params"], strict=True)
    }
