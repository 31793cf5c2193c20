"""Samples as rows of a micro-batch: places of flat tokens in rows, their hashes, and lists of samples as padded rows.

Letters in shapes: B or D samples, T tokens of a row, N tokens of all samples.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tiryns.runner.data.micro_batch import Batch, FlatSamples, MicroBatch
from tiryns.runner.order.keyed import mix64
from tiryns.runner.order.ranges import ranges

IGNORED = -100
"""The label of a token without a target, as in torch's losses."""

Samples = Sequence[Mapping[str, Any]]
"""Tokenised samples by their columns, such as `input_ids`."""

Places = NDArray[np.int64]
"""The place of each flat token [N] in the rows, counted row by row."""

Shape = tuple[int, int]
"""The number of rows, and the tokens of each."""


def positions(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the position of each flat token [N] in its sample, from 0."""
    return ranges(np.zeros_like(lengths), lengths)


def lay_out(lengths: NDArray[np.int64], packed: bool) -> tuple[Places, Shape, MicroBatch]:
    """Returns the places [N] of the tokens of samples of `lengths` [D], the shape of the rows, and the layout's fields.

    The fields are an `attention_mask` for padded rows; `position_ids`, `cu_seqlens` and `max_length` for a packed row.
    """
    longest = int(lengths.max())
    if packed:
        places = np.arange(int(lengths.sum()))
        bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        extent: MicroBatch = {
            "position_ids": torch.from_numpy(positions(lengths))[None],
            "cu_seqlens": torch.from_numpy(bounds),
            "max_length": longest,
        }
        return places, (1, len(places)), extent
    shape = (len(lengths), longest)
    places = ranges(np.arange(len(lengths)) * longest, lengths)
    return places, shape, {"attention_mask": spread(np.ones_like(places), places, shape, 0)}


def sample_hashes(labelled: FlatSamples) -> tuple[int, int]:
    """Hashes key, tokens and labels of each sample; returns the sums of the hashes' lowest and of their highest 24 bits.

    Sums do not depend on micro-batches; they stay below 2**53 and add up exactly in float64.
    """
    lengths = labelled["lengths"].astype(np.int64)
    labels = (labelled["labels"] + 101).astype(np.uint64) * np.uint64(2**31)
    tokens = labelled["input_ids"].astype(np.uint64) + labels
    hashes = mix64(tokens ^ positions(lengths).astype(np.uint64) << np.uint64(48))
    samples = mix64(np.add.reduceat(hashes, np.cumsum(lengths) - lengths) ^ labelled["keys"])
    return int((samples & np.uint64(2**24 - 1)).sum()), int((samples >> np.uint64(40)).sum())


def spread(values: NDArray[np.integer | np.bool_], places: Places, shape: Shape, fill: int) -> Tensor:
    """Returns int64 rows of `shape`, with the values of flat tokens [N] at their places and `fill` elsewhere."""
    rows = np.full(shape[0] * shape[1], fill, dtype=np.int64)
    rows[places] = values
    return torch.from_numpy(rows.reshape(shape))


def pad_samples(samples: Samples, pad_token_id: int, longest: int, columns: Sequence[str]) -> Batch:
    """Returns `input_ids`, `attention_mask`, existing `columns`, int64 [B, T, ...]; `keys` [B] if samples have a `key`.

    Samples are cut after `longest` tokens. Raises ValueError for no samples, a sample without `input_ids`, or a column
    of another length.
    """
    if not len(samples):
        raise ValueError("there are no samples to make a batch of")
    for number, sample in enumerate(samples):
        is_mapping = isinstance(sample, Mapping)
        if not is_mapping or "input_ids" not in sample:
            kind = f"with {', '.join(sample)}" if is_mapping else f"a {type(sample).__name__}"
            raise ValueError(f"sample {number} has no input_ids, but is {kind}: tokenise the samples first")
    ids = [_array(sample, number, "input_ids") for number, sample in enumerate(samples)]
    lengths = [len(values) for values in ids]
    width = min(max(lengths), longest)
    batch: Batch = {"input_ids": _rows(ids, width, pad_token_id)}
    with_mask = [{"attention_mask": np.ones(n), **sample} for sample, n in zip(samples, lengths, strict=True)]
    for name in ("attention_mask", *(name for name in columns if name in samples[0])):
        values = [_array(sample, i, name, lengths[i]) for i, sample in enumerate(with_mask)]
        batch[name] = _rows(values, width, 0)
    if "key" in samples[0]:
        keys = np.array([int(sample["key"]) % 2**64 for sample in samples], dtype=np.uint64)
        batch["keys"] = torch.from_numpy(keys.view(np.int64))
    return batch


def column_of(samples: Samples, name: str) -> list[Any]:
    """Returns a column of the samples. Raises ValueError, which names the columns, for a sample without it."""
    for number, sample in enumerate(samples):
        if name not in sample:
            raise ValueError(f"sample {number} has no {name!r}; it has {', '.join(sample)}")
    return [sample[name] for sample in samples]


def label_tensor(values: Sequence[object], lengths: Sequence[int], width: int) -> Tensor:
    """Returns labels of samples, float32 if any is a float, else int64: [B], or [B, T] with one per token, -100 for none.

    `lengths` are the tokens of the samples before they were cut to `width`. Raises ValueError for text, and for lists of
    another length than their tokens.
    """
    arrays = [np.asarray(value) for value in values]
    for array in arrays:
        if array.dtype.kind not in "biuf":
            raise ValueError(f"labels must be numbers, not {array.tolist()!r}: number the classes first")
    kind = torch.float32 if any(array.dtype.kind == "f" for array in arrays) else torch.int64
    if not any(array.ndim for array in arrays):
        return torch.tensor([array.item() for array in arrays], dtype=kind)
    rows = torch.full((len(arrays), width), IGNORED, dtype=kind)
    for number, (array, length) in enumerate(zip(arrays, lengths, strict=True)):
        if array.shape != (length,):
            raise ValueError(
                f"sample {number} has {array.size} labels for {length} tokens: give one for each, -100 for none"
            )
        rows[number, :length] = torch.from_numpy(array[:width]).to(kind)
    return rows


def flat_column(tokenized: Batch, name: str, real: NDArray[np.bool_]) -> NDArray[Any]:
    """Returns a column of padded rows [B, T, ...] at their N `real` tokens, [N, ...]."""
    values = torch.as_tensor(tokenized[name]).cpu().numpy()
    if values.shape[:2] != real.shape:
        raise ValueError(f"{name} has shape {values.shape}, but the tokens have shape {real.shape}")
    return values[real]


def _array(sample: Mapping[str, Any], number: int, name: str, length: int | None = None) -> NDArray[np.int64]:
    """Returns a column of a sample, with a value for each token."""
    values = sample[name]
    if isinstance(values, Tensor):
        values = values.cpu().numpy()
    elif name == "sequence_ids":  # fast tokenizers give None for special tokens
        values = [-1 if value is None else value for value in values]
    array = np.asarray(values, dtype=np.int64)
    if name == "input_ids" and array.ndim != 1:
        raise ValueError(f"sample {number} has input_ids of shape {array.shape}: expected one row of tokens")
    if length is not None and len(array) != length:
        raise ValueError(f"sample {number} has {len(array)} values of {name} for {length} tokens")
    return array


def _rows(values: Sequence[NDArray[np.int64]], width: int, fill: int) -> Tensor:
    """Returns the values of samples as rows, cut or filled to `width` tokens, int64 [B, T, ...]."""
    rows = np.full((len(values), width, *values[0].shape[1:]), fill, dtype=np.int64)
    for row, value in zip(rows, values, strict=True):
        row[: len(value)] = value[:width]
    return torch.from_numpy(rows)
