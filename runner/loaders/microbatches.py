"""Flat samples as the batch of a loader, and a batch as micro-batches, for loops that accumulate gradients.

Letters in shapes: N micro-batches, m samples of each, T tokens.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from tiryns.runner.data.micro_batch import Batch, FlatSamples
from tiryns.runner.objectives.base import FlatCollator
from tiryns.runner.objectives.labelled.finetuning import token_types
from tiryns.runner.objectives.rows import IGNORED, lay_out


def split_batch_into_microbatches(
    batch: Batch, num_microbatches: int, enforce_divisible: bool = True
) -> list[Batch]:
    """Splits a batch [N*m, ...] into N dicts with the same keys and [m, ...] values; tensors and arrays are views.

    The batch length is the length of the first tensor or array, else of the first list. Values of this length are split,
    also inside mappings, tuples and lists; other values, and tensors of length 1, are shared. If not `enforce_divisible`,
    the first parts may have one sample more. Unlike Megatron-Bridge's function, it splits lists like tensors.
    Raises ValueError for `num_microbatches` below 1, a batch that does not divide, a batch without any batched value, and
    a tensor of another length.

    Example:
        >>> batch = {"tokens": torch.zeros(16, 240), "names": list("abcdefghijklmnop"), "task": "caption"}
        >>> parts = split_batch_into_microbatches(batch, 4)
        >>> [tuple(part["tokens"].shape) for part in parts], parts[1]["names"], parts[1]["task"]
        ([(4, 240), (4, 240), (4, 240), (4, 240)], ['e', 'f', 'g', 'h'], 'caption')
    """
    if num_microbatches < 1:
        raise ValueError(f"num_microbatches is {num_microbatches}: expected 1 or more.")
    length, owner = _batch_length(batch)
    size, larger = divmod(length, num_microbatches)
    bounds = [i * size + min(i, larger) for i in range(num_microbatches + 1)]
    parts = [_part(batch, slice(*part), "", owner, length) for part in pairwise(bounds)]
    if enforce_divisible and larger:
        raise ValueError(
            f"A batch of {length} samples does not divide into {num_microbatches} micro-batches: change one of "
            "the two, or pass enforce_divisible=False for parts that differ by one."
        )
    return parts


def prepare_finetuning_batch(
    data_iterator: Iterator[Batch] | None,
    num_microbatches: int,
    default_seq_length: int,
    seq_key: str = "tokens",
) -> tuple[Iterator[Batch] | None, int]:
    """Takes a global batch; returns its micro-batches and their sequence length in tokens.

    The length is T of `batch[seq_key]` [N*m, T], or the default if the key is missing. A rank that loads no data has no
    `data_iterator` and gets (None, the default). Raises StopIteration at the end of the data, and ValueError as
    `split_batch_into_microbatches` does and for sequences of different lengths.

    Example:
        >>> batches = iter([{"tokens": torch.zeros(6, 100)}, {"tokens": torch.zeros(6, 80)}])
        >>> micro_batches, length = prepare_finetuning_batch(batches, 3, default_seq_length=2048)
        >>> [tuple(part["tokens"].shape) for part in micro_batches], length
        ([(2, 100), (2, 100), (2, 100)], 100)
    """
    if data_iterator is None:
        return None, default_seq_length
    batch = next(data_iterator)
    sequences: Any = batch.get(seq_key)
    if sequences is None:
        lengths = {default_seq_length}
    elif isinstance(sequences, torch.Tensor | np.ndarray):
        lengths = {*sequences.shape[1:2]}
    else:
        lengths = {*map(len, sequences)}
    if len(lengths) != 1:
        problem = f"batch['{seq_key}'] has sequences of lengths {sorted(lengths)}"
        raise ValueError(f"{problem}: expected [batch, sequence], padded to one length.")
    return iter(split_batch_into_microbatches(batch, num_microbatches)), lengths.pop()


def _batch_length(batch: Mapping[str, object]) -> tuple[int, str]:
    """Returns the batch length and the name of the value that has this length."""
    leaves = list(_leaves(batch, ""))
    for kinds in ((torch.Tensor, np.ndarray), (list, tuple)):
        for name, value in leaves:
            if isinstance(value, kinds) and getattr(value, "ndim", None) != 0:
                return len(value), name
    raise ValueError(f"No value of the batch has a batch dimension; its keys are {list(batch)}.")


def _leaves(value: Mapping[str, object], name: str) -> Iterator[tuple[str, object]]:
    """Yields all values of a mapping and of the mappings in it, with their dotted names."""
    for key, member in value.items():
        if isinstance(member, Mapping):
            yield from _leaves(member, f"{name}{key}.")
        else:
            yield f"{name}{key}", member


def _part(value: Any, part: slice, name: str, owner: str, length: int) -> Any:
    if isinstance(value, Mapping):
        return {key: _part(member, part, f"{name}.{key}", owner, length) for key, member in value.items()}
    if hasattr(value, "_fields") or _holds_batches(value, length):
        members = [_part(member, part, f"{name}.{i}", owner, length) for i, member in enumerate(value)]
        if hasattr(value, "_fields"):
            return type(value)(*members)
        return tuple(members) if isinstance(value, tuple) else members
    if isinstance(value, torch.Tensor | np.ndarray):
        is_batched = value.ndim > 0 and (len(value) != 1 or length == 1)
    else:
        is_batched = isinstance(value, list | tuple) and len(value) == length
    if not is_batched:
        return value
    if len(value) != length:
        raise ValueError(
            f"batch['{name.lstrip('.')}'] has length {len(value)}, but batch['{owner}'] has {length}: "
            "expected the same batch length in all tensors and arrays, or 1 to share one."
        )
    return value[part]


def _holds_batches(value: object, length: int) -> bool:
    """Returns whether a value is a list or tuple of batches, and not itself a batch of `length`."""
    if not isinstance(value, list | tuple) or not value or len(value) == length:
        return False
    return all(
        isinstance(member, Mapping)
        or (isinstance(member, torch.Tensor | np.ndarray | list | tuple) and len(member) == length)
        for member in value
        if getattr(member, "ndim", 1)
    )


def row_batch(flat: FlatSamples, collator: FlatCollator, row_tokens: int | None = None) -> Batch:
    """Returns `input_ids`, `attention_mask` and the targets of samples in rows [B, T], or [1, T] if they are `packed`.

    A packed row has `position_ids`, `cu_seqlens` and `max_length` instead of the mask; it is padded to `row_tokens`.
    """
    if row_tokens is not None:
        flat = pad_to(flat, row_tokens, collator.pad_token_id)
    collator.check_tokens(torch.from_numpy(flat["input_ids"]))
    samples = collator.with_targets(flat)
    places, shape, extent = lay_out(samples["lengths"].astype(np.int64), bool(flat.get("packed")))
    rows = collator.rows(samples, places, shape)
    if flat.get("filler"):
        answers = ("start_positions", "end_positions")
        rows |= {name: torch.full_like(rows[name], IGNORED) for name in answers if name in rows}
    return {"input_ids": rows.pop("input_ids"), **extent, **token_types(samples, places, shape), **rows}


def pad_to(flat: FlatSamples, num_tokens: int, pad_token_id: int) -> FlatSamples:
    """Fills flat samples up to `num_tokens` with samples of padding; none of these is longer than the longest sample."""
    missing = num_tokens - len(flat["input_ids"])
    if missing <= 0:
        return flat
    longest = int(flat["lengths"].max())
    full, rest = divmod(missing, longest)
    sizes = np.array([longest] * full + ([rest] if rest else []), dtype=np.int32)
    places, none = np.arange(len(sizes)) + int(flat["batch_size"]), np.zeros(len(sizes), dtype=np.int64)
    return {
        **flat,
        "input_ids": np.concatenate([flat["input_ids"], np.full(missing, pad_token_id, dtype=np.int64)]),
        "lengths": np.concatenate([flat["lengths"], sizes]),
        "keys": np.concatenate([flat["keys"], none.view(np.uint64)]),
        "epochs": np.concatenate([flat["epochs"], none]),
        "lasting_keys": np.concatenate([flat["lasting_keys"], none.view(np.uint64)]),
        "batch_places": np.concatenate([flat["batch_places"], places]),
        "batch_size": int(flat["batch_size"]) + len(sizes),
    }
