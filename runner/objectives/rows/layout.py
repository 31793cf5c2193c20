"""Places of flat tokens in rows. Letters in shapes: D samples, T tokens of a row, N tokens of all samples."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tiryns.runner.data.micro_batch import FlatSamples, MicroBatch
from tiryns.runner.order.keyed import mix64
from tiryns.runner.order.ranges import ranges

IGNORED = -100
"""The label of a token without a target, as in torch's losses."""

Places = NDArray[np.int64]
"""The place of each flat token [N] in the rows, counted row by row."""

Shape = tuple[int, int]
"""The number of rows, and the tokens of each."""


def positions(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The position of each flat token [N] in its sample, from 0."""
    return ranges(np.zeros_like(lengths), lengths)


def lay_out(lengths: NDArray[np.int64], packed: bool) -> tuple[Places, Shape, MicroBatch]:
    """Places [N] of the tokens of samples of `lengths` [D], the shape of the rows, and the fields that describe them.

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
    """Two sums of 24-bit halves of a hash per sample, over its key, tokens and labels.

    Sums do not depend on micro-batches; they stay below 2**53 and add up exactly in float64.
    """
    lengths = labelled["lengths"].astype(np.int64)
    labels = (labelled["labels"] + 101).astype(np.uint64) * np.uint64(2**31)
    tokens = labelled["input_ids"].astype(np.uint64) + labels
    hashes = mix64(tokens ^ positions(lengths).astype(np.uint64) << np.uint64(48))
    samples = mix64(np.add.reduceat(hashes, np.cumsum(lengths) - lengths) ^ labelled["keys"])
    return int((samples & np.uint64(2**24 - 1)).sum()), int((samples >> np.uint64(40)).sum())


def spread(values: NDArray[Any], places: Places, shape: Shape, fill: int) -> Tensor:
    """Values of flat tokens [N] at their places in rows of `shape`, and `fill` elsewhere, int64."""
    rows = np.full(shape[0] * shape[1], fill, dtype=np.int64)
    rows[places] = values
    return torch.from_numpy(rows.reshape(shape))
