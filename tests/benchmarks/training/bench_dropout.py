"""A step with dropout, by what decides on each element: `python -m tests.benchmarks dropout`.

Keys of samples (`runner.models.packed.dropout_keys`), 16 bits drawn in order, and torch's own, which draws a
float for each. Forward and backward pass of a packed micro-batch, in CPU time, the contenders in turn.
"""

import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import nn
from transformers import BertConfig, BertForMaskedLM

from tests.benchmarks.data.bench_permute import table
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.launch.processes import keep_freed_memory
from tiryns.runner.models import SparseMaskedLM
from tiryns.runner.models.packed import attention as packed_attention
from tiryns.runner.models.packed import dropout
from tiryns.runner.models.packed.dropout_keys import dropout_keys
from tiryns.runner.models.packed.rows import packed_row

ROUNDS = 8
TOKENS = 1024
SIZES = {
    "bert_mini": {"num_hidden_layers": 4, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024},
    "MiniLM-L6": {"num_hidden_layers": 6, "hidden_size": 384, "num_attention_heads": 12, "intermediate_size": 1536},
}  # fmt: skip


def main() -> None:
    """Prints the table."""
    keep_freed_memory()  # as a run does
    rows = []
    for name, sizes in SIZES.items():
        steps = contenders(sizes)
        seconds: dict[str, list[float]] = {way: [] for way in steps}
        for turn in range(ROUNDS + 1):
            for way in sorted(steps, reverse=turn % 2 == 1):
                began = time.process_time()
                steps[way]()
                if turn:
                    seconds[way].append(time.process_time() - began)
        drawn = seconds["drawn in order"]
        for way, found in seconds.items():
            ratios = sorted(ours / theirs for ours, theirs in zip(found, drawn, strict=True))
            spread = f"{ratios[1]:.2f} to {ratios[-2]:.2f}"
            middle = f"{statistics.median(ratios):.3f} ({spread})"
            rows.append((name, way, f"{statistics.median(found) * 1e3:,.0f}", middle))
    print(f"A packed micro-batch of some {TOKENS:,} tokens, dropout .1, fp32; median of {ROUNDS} rounds\n")
    table(("model", "dropout by", "CPU ms", "against drawn in order"), rows)


def contenders(sizes: dict[str, int]) -> dict[str, Callable[[], None]]:
    """A step for each way to decide."""
    micro_batch = documents()

    def step(model: SparseMaskedLM, keyed: bool, own: bool) -> None:
        with dropout_keys(micro_batch, 7) if keyed else nullcontext(), torchs_own() if own else nullcontext():
            model(micro_batch)["loss"].backward()
        model.zero_grad()

    ours, drawing, torchs, without = (build(sizes, rate) for rate in (0.1, 0.1, 0.1, 0.0))
    for name, module in list(torchs.named_modules()):
        if type(module) is dropout.Dropout:
            torchs.set_submodule(name, nn.Dropout(module.p))
    return {
        "keys of samples": lambda: step(ours, True, False),
        "drawn in order": lambda: step(drawing, False, False),
        "torch": lambda: step(torchs, False, True),
        "none": lambda: step(without, False, False),
    }


def torchs_own() -> Any:
    """Within it attention drops as torch does."""
    return patch.object(packed_attention, "can_drop", lambda *_: False)


def build(sizes: dict[str, int], rate: float) -> SparseMaskedLM:
    """A BERT that takes packed rows."""
    torch.manual_seed(0)
    rates = {"hidden_dropout_prob": rate, "attention_probs_dropout_prob": rate}
    model = SparseMaskedLM(BertForMaskedLM(BertConfig(**sizes, **rates)))  # type: ignore[arg-type]
    model.pack_rows()
    return model.train()


def documents(tokens: int = TOKENS) -> MicroBatch:
    """A micro-batch of paragraphs, cut at 128 tokens, 15 % of them targets."""
    draw = np.random.default_rng(0)
    lengths: list[int] = []
    while sum(lengths) < tokens:
        lengths.append(int(np.clip(draw.lognormal(4.2, 0.7), 8, 128)))
    row = packed_row([torch.from_numpy(draw.integers(5, 30_000, length)) for length in lengths])
    positions = torch.from_numpy(np.flatnonzero(draw.random(sum(lengths)) < 0.15))
    keys = torch.from_numpy(draw.integers(1 << 62, size=len(lengths)))
    targets = row["input_ids"][0][positions]
    return {**row, "target_positions": positions, "targets": targets, "sample_keys": keys}
