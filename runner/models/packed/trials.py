"""Trials of models on random documents, by which rows, precision and layers are chosen."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig

TOLERANCE = 1e-4
"""How far hidden states in packed or padded rows may be from those of each document alone, relative to the largest;
rounding is below 1e-5."""


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Within it the module computes as in an evaluation."""
    training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(training)


def relative_difference(found: Tensor, expected: Tensor) -> float:
    """The largest difference, relative to the largest number expected."""
    return float((found - expected).abs().max() / expected.abs().max())


def in_one_line(error: BaseException) -> str:
    """What was raised, and the first line of what it says."""
    return f"{type(error).__name__} ({(str(error).strip().splitlines() or ['no message'])[0]})"


def trial_documents(config: PretrainedConfig) -> list[Tensor]:
    """Random documents [T], one longer than a sliding window if that is short, and of several lengths.

    Each ends with the token that ends a text, where the model has one: some heads look for it.
    """
    padding, end = padding_id(config), getattr(config, "eos_token_id", None)
    window = _field(config, "sliding_window") or 0
    room = _field(config, "max_position_embeddings") or 0
    longest = window + 17 if window <= 512 else 32
    generator = torch.Generator().manual_seed(0)
    documents = []
    for length in (longest, 1, 24, 24, 7):
        size = max(1, min(length, room - padding - 1)) if room > 0 else length
        ids = torch.randint(config.vocab_size - 1, (size,), generator=generator)
        ids += ids >= padding  # any token but padding
        if isinstance(end, int) and 0 <= end < config.vocab_size and end != padding:
            other = next(i for i in range(config.vocab_size) if i not in (padding, end))
            ids[ids == end] = other
            ids[-1] = end
        documents.append(ids)
    return documents


def padding_id(config: PretrainedConfig) -> int:
    """The id of the padding token; 0 where a config has none."""
    return getattr(config, "pad_token_id", None) or 0


def _field(config: PretrainedConfig, name: str) -> Any:
    """A field of a config; None where there is none, or another for each layer."""
    try:
        return getattr(config, name, None)
    except Exception:  # transformers' own kind, which older versions lack
        return None
