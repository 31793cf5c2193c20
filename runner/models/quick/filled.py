"""A packed row with a few tokens more, so that lengths come back: in bf16 oneDNN compiles its kernels for each shape.

Letters in shapes: D documents, T tokens, M targets.
"""

from typing import cast

import torch
from torch import Tensor
from torch.nn import functional

from iolaus.runner.data.micro_batch import MicroBatch

_LEAST = 16
"""Rows of a matrix that are added at least where any are: as many as a vector register has numbers."""


def rounded(count: int) -> int:
    """The next of the 8 to 16 sizes between two powers of 2 that matrices are filled to; 3 % more on average.

    Example:
        >>> [rounded(count) for count in (1, 148, 512, 513, 2047)]
        [16, 160, 512, 544, 2048]
    """
    step = max(_LEAST, 1 << max(0, (count // 16).bit_length() - 1))
    return -(-count // step) * step


def filled(micro_batch: MicroBatch, positions: Tensor) -> tuple[MicroBatch, Tensor]:
    """A packed micro-batch with a last document of further tokens, and targets of weight 0; and all their positions [M'].

    The first M of the losses are those that count. `positions` are those of the M targets. There is one further token at
    least: gradients of targets at one position would get into each other's way.
    """
    row, targets = micro_batch["input_ids"], micro_batch["targets"]
    tokens, bounds = row.shape[-1], micro_batch["cu_seqlens"]
    added = rounded(tokens + 1) - tokens
    wider = cast(MicroBatch, dict(micro_batch))
    wider["input_ids"] = functional.pad(row, (0, added))
    wider["position_ids"] = torch.cat([micro_batch["position_ids"], torch.arange(added)[None]], 1)
    wider["cu_seqlens"] = torch.cat([bounds, bounds.new_tensor([tokens + added])])
    wider["max_length"] = max(micro_batch["max_length"], added)
    more = (0, rounded(len(targets)) - len(targets))
    weights = micro_batch.get("target_weights")
    weights = torch.ones(len(targets)) if weights is None else weights
    wider["targets"], wider["target_weights"] = functional.pad(targets, more), functional.pad(weights, more)
    return wider, functional.pad(positions, more, value=tokens + added - 1)
