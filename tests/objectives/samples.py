"""Flat samples and collators of a small vocabulary, shared by the tests of the objectives."""

from typing import Any, cast

import numpy as np

from tiryns.runner.data.micro_batch import FlatSamples
from tiryns.runner.objectives import get_collator_cls
from tiryns.runner.objectives.base import Collator
from tiryns.runner.order.keyed import sample_keys

PAD, UNKNOWN, START, END, MASK = range(5)
SPECIAL = (PAD, UNKNOWN, START, END, MASK)
VOCABULARY = 200


def collator(objective: str, **fields: Any) -> Collator:
    """The collator of an objective over `VOCABULARY` tokens."""
    return get_collator_cls(objective)(
        **{
            "pad_token_id": PAD,
            "mask_token_id": MASK,
            "vocab_size": VOCABULARY,
            "special_token_ids": list(SPECIAL),
            "text_column": "text",
            "label_column": None,
            "max_sequence_length": 64,
            **fields,
        }
    )


def documents(lengths: list[int], seed: int = 0) -> list[np.ndarray]:
    """Documents of random ordinary tokens between a start and an end token; lengths count these two."""
    draw = np.random.default_rng(seed)
    inner = [draw.integers(len(SPECIAL), VOCABULARY, max(0, length - 2)) for length in lengths]
    return [np.array([START, *tokens, END][-length:]) for tokens, length in zip(inner, lengths, strict=True)]


def flat(
    texts: list[np.ndarray], indices: list[int] | None = None, epoch: int = 0, **more: Any
) -> FlatSamples:
    """The samples as a collator gets them, with the keys of (epoch, index)."""
    indices = list(range(len(texts))) if indices is None else indices
    chosen = [texts[i] for i in indices]
    made: FlatSamples = {
        "input_ids": np.concatenate(chosen).astype(np.int64),
        "lengths": np.array([len(text) for text in chosen], dtype=np.int32),
        "keys": sample_keys(7, np.full(len(indices), epoch), np.array(indices), 1),
        "epochs": np.full(len(indices), epoch),
        "lasting_keys": sample_keys(7, np.zeros(len(indices)), np.array(indices), 1),
    }
    return cast(FlatSamples, {**made, **more})
