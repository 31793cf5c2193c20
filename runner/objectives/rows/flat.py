"""Flat samples as the batch of a `DataLoader`: equal to a collator's batch of a list of samples with the same keys."""

from typing import Any

import numpy as np
import torch

from tiryns.runner.data.micro_batch import FlatSamples
from tiryns.runner.objectives.base import FlatCollator
from tiryns.runner.objectives.labelled.finetuning import token_types
from tiryns.runner.objectives.rows.layout import IGNORED, lay_out


def row_batch(flat: FlatSamples, collator: FlatCollator, row_tokens: int | None = None) -> dict[str, Any]:
    """`input_ids`, `attention_mask` and the targets of samples in rows [B, T], or [1, T] if they are `packed`.

    A packed row has `position_ids`, `cu_seqlens` and `max_length` instead of the mask; `row_tokens` pads it.
    """
    if row_tokens is not None:
        flat = padded_to(flat, row_tokens, collator.pad_token_id)
    collator.check_tokens(torch.from_numpy(flat["input_ids"]))
    labelled = collator.labelled(flat)
    places, shape, extent = lay_out(labelled["lengths"].astype(np.int64), bool(flat.get("packed")))
    made = collator.rows(labelled, places, shape)
    if flat.get("filler"):
        answers = ("start_positions", "end_positions")
        made |= {name: torch.full_like(made[name], IGNORED) for name in answers if name in made}
    return {"input_ids": made.pop("input_ids"), **extent, **token_types(labelled, places, shape), **made}


def padded_to(flat: FlatSamples, num_tokens: int, pad_token_id: int) -> FlatSamples:
    """Flat samples, filled up to `num_tokens` with samples of padding, none of them longer than the longest."""
    missing = num_tokens - len(flat["input_ids"])
    if missing <= 0:
        return flat
    longest = int(flat["lengths"].max())
    full, rest = divmod(missing, longest)
    added = np.array([longest] * full + ([rest] if rest else []), dtype=np.int32)
    places = np.arange(len(added)) + int(flat["batch_size"])
    return {
        **flat,
        "input_ids": np.concatenate([flat["input_ids"], np.full(missing, pad_token_id, dtype=np.int64)]),
        "lengths": np.concatenate([flat["lengths"], added]),
        "keys": np.concatenate([flat["keys"], np.zeros(len(added), dtype=np.uint64)]),
        "batch_places": np.concatenate([flat["batch_places"], places]),
        "batch_size": int(flat["batch_size"]) + len(added),
    }
