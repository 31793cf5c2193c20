"""Tokenised samples and tiny models for the tests of the collators."""

from typing import Any

import numpy as np
import torch
import transformers

PAD, UNKNOWN, START, END, MASK = range(5)
THREE = (PAD, MASK, 100)
"""The three arguments that every collator is made with: padding, mask, vocabulary."""


def samples(count: int = 40, seed: int = 0) -> list[dict[str, Any]]:
    """Samples of 3 to 30 tokens between a start and an end; lists and tensors, some without an attention mask."""
    draw = np.random.default_rng(seed)
    made = []
    for number in range(count):
        ids = [START, *draw.integers(5, 100, draw.integers(1, 28)).tolist(), END]
        sample: dict[str, Any] = {"input_ids": ids, "attention_mask": [1] * len(ids)}
        if number % 3 == 1:
            sample = {name: torch.tensor(values) for name, values in sample.items()}
        if number % 3 == 2:
            del sample["attention_mask"]
        made.append({**sample, "label": number % 3, "labels": [number % 2] * len(ids)})
    return made


def tiny(auto: Any, **fields: Any) -> Any:
    return auto(
        transformers.BertConfig(
            vocab_size=100, hidden_size=16, num_hidden_layers=1, num_attention_heads=1, intermediate_size=16, **fields
        )
    )  # fmt: skip
