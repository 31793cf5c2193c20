"""Sums for each row of a micro-batch: of padded rows [D, T], or of the documents of a packed row.

Letters in shapes: D rows, T tokens, M targets.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from tiryns.runner.data.micro_batch import MicroBatch


def num_rows(micro_batch: MicroBatch) -> int:
    """The rows, or the documents of a packed row."""
    return (
        len(micro_batch["cu_seqlens"]) - 1 if "cu_seqlens" in micro_batch else len(micro_batch["input_ids"])
    )


def rows_of(micro_batch: MicroBatch, positions: Tensor) -> Tensor:
    """The row of each position [M], which count tokens row by row."""
    if "cu_seqlens" in micro_batch:
        ends = micro_batch["cu_seqlens"][1:].to(positions.dtype)
        return torch.searchsorted(ends, positions, right=True)
    return positions // micro_batch["input_ids"].shape[1]


def summed_by_row(micro_batch: MicroBatch, rows: Tensor, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The sum [D] of each of the values [M] over the rows [M] they are of, in float64."""
    size, found = num_rows(micro_batch), {}
    for name, value in values.items():
        zeros = torch.zeros(size, dtype=torch.float64, device=value.device)
        found[name] = zeros.index_add(0, rows, value.detach().double())
    return found
