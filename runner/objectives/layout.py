"""Places of flat tokens in the rows of a micro-batch.

Letters in shapes: D samples, T tokens of a row, N tokens of all samples together.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from iolaus.runner.data.micro_batch import FlatSamples, MicroBatch
from iolaus.runner.order.keyed import mix64

IGNORED = -100
"""The label of a token without a target, as in torch's losses."""


def flat_places(lengths: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """The place of each token of flat samples [N] in rows of `width`, counted row by row."""
    starts = np.cumsum(lengths) - lengths
    shifts = np.arange(len(lengths)) * width - starts
    places: NDArray[np.int64] = np.arange(lengths.sum()) + np.repeat(shifts, lengths)
    return places


def packed_extent(lengths: NDArray[np.int64], places: NDArray[np.int64]) -> MicroBatch:
    """Positions and bounds of samples of `lengths` [D] in one packed row with `places` [T]."""
    ends = np.cumsum(lengths)
    return {
        "position_ids": torch.from_numpy(places - np.repeat(ends - lengths, lengths))[None],
        "cu_seqlens": torch.from_numpy(np.concatenate([[0], ends]).astype(np.int32)),
        "max_length": int(lengths.max()),
    }


def lay_out(
    lengths: NDArray[np.int64], packed: bool
) -> tuple[NDArray[np.int64], tuple[int, int], MicroBatch]:
    """Places [N] of the tokens of samples of `lengths` [D], the shape of the rows, and the fields that describe them.

    The fields are an `attention_mask` for padded rows, and those of `packed_extent` for a packed row.
    """
    if packed:
        places = np.arange(int(lengths.sum()))
        return places, (1, len(places)), packed_extent(lengths, places)
    shape = (len(lengths), int(lengths.max()))
    places = flat_places(lengths, shape[1])
    return places, shape, {"attention_mask": spread(np.ones_like(places), places, shape, 0)}


def sample_hashes(labelled: FlatSamples) -> tuple[int, int]:
    """Two sums of 24-bit halves of a hash per sample, over its key, tokens and labels.

    Sums do not depend on how samples are grouped, so those of a global batch are the same for every cut; they stay
    below 2**53 and add up exactly in float64.
    """
    lengths = labelled["lengths"].astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    position = (np.arange(lengths.sum()) - np.repeat(starts, lengths)).astype(np.uint64)
    tokens = labelled["input_ids"].astype(np.uint64) + (labelled["labels"] + 101).astype(
        np.uint64
    ) * np.uint64(2**31)
    hashes = mix64(tokens ^ position << np.uint64(48))
    samples = mix64(np.add.reduceat(hashes, starts) ^ labelled["keys"])
    low = samples & np.uint64(2**24 - 1)
    high = samples >> np.uint64(40)
    return int(low.sum()), int(high.sum())


def spread(values: NDArray[Any], places: NDArray[np.int64], shape: tuple[int, int], fill: int) -> Tensor:
    """Values of flat tokens [N] at their places in rows of `shape`, and `fill` elsewhere, int64."""
    rows = np.full(shape[0] * shape[1], fill, dtype=np.int64)
    rows[places] = values
    return torch.from_numpy(rows.reshape(shape))
