"""Trials of models on random documents, which decide on row layout, precision and the last layer."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig

TOLERANCE = 1e-4
"""Allowed relative difference of hidden states in packed or padded rows from those of each document alone."""


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Puts the module in evaluation mode for the block, then restores the mode of each of its parts."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def relative_difference(actual: Tensor, expected: Tensor) -> float:
    """Returns the largest difference, relative to the largest number expected."""
    largest = expected.abs().max().clamp_min(torch.finfo(expected.dtype).tiny)
    return float((actual - expected).abs().max() / largest)


def in_one_line(error: BaseException) -> str:
    """Returns an exception's type and the first line of its message."""
    return f"{type(error).__name__} ({(str(error).strip().splitlines() or ['no message'])[0]})"


def trial_documents(config: PretrainedConfig) -> list[Tensor]:
    """Returns random documents [T] of several lengths; one is longer than a short sliding window (up to 512).

    If the config names an end token, each document ends with it, as some heads look for it. If the config names a mask
    token, one document has masks, as ESM scales a row by their share.
    """
    padding = padding_id(config)
    end, mask = (getattr(config, f"{role}_token_id", None) for role in ("eos", "mask"))
    window = _field(config, "sliding_window") or 0
    room = _field(config, "max_position_embeddings") or 0
    longest = window + 17 if window <= 512 else 32
    generator = torch.Generator().manual_seed(0)
    documents: list[Tensor] = []
    for length in (longest, 1, 24, 24, 7):
        size = max(1, min(length, room - padding - 1)) if room > 0 else length
        ids = torch.randint(config.vocab_size - 1, (size,), generator=generator)
        ids += ids >= padding  # any token but padding
        mask_places = slice(1, 3) if len(documents) == 2 else slice(0)
        for token, places in ((mask, mask_places), (end, slice(-1, None))):
            if isinstance(token, int) and 0 <= token < config.vocab_size and token != padding:
                ids[ids == token] = next(i for i in range(config.vocab_size) if i not in (padding, end, mask))
                ids[places] = token
        documents.append(ids)
    return documents


def padding_id(config: PretrainedConfig) -> int:
    """Returns the id of the padding token; 0 if a config has none."""
    return getattr(config, "pad_token_id", None) or 0


def _field(config: PretrainedConfig, name: str) -> int | None:
    """Returns a field of a config; None if it is missing, or differs by layer."""
    try:
        return getattr(config, name, None)
    except Exception:  # transformers' own kind, which older versions lack
        return None
