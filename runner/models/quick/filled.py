"""A packed row with a few tokens more, so that lengths come back.

In bf16 on a CPU oneDNN compiles its kernels for each shape; on a GPU a CUDA graph is of one shape.

Letters in shapes: D documents, T tokens, M targets.
"""

import math
from typing import NamedTuple, cast

import torch
from torch import Tensor
from torch.nn import functional

from tiryns.runner.data.micro_batch import MicroBatch

_LEAST = 16
"""Rows of a matrix that are added at least where any are: as many as a vector register has numbers."""

_SPREAD = 4
"""Standard deviations that the targets of a full row may be above their mean, each being drawn for itself."""

_TOKENS_PER_DOCUMENT = 16
"""Tokens of a document, on average, below which its row takes a size more of bounds."""


class Sizes(NamedTuple):
    """Sizes that packed micro-batches are filled to: each of them, or a multiple where one has more."""

    tokens: int
    targets: int
    documents: int
    longest: int
    """The most tokens of a document."""


def rounded(count: int) -> int:
    """The next of the 8 to 16 sizes between two powers of 2 that matrices are filled to; 3 % more on average.

    Example:
        >>> [rounded(count) for count in (1, 148, 512, 513, 2047)]
        [16, 160, 512, 544, 2048]
    """
    step = max(_LEAST, 1 << max(0, (count // 16).bit_length() - 1))
    return -(-count // step) * step


def multiple(count: int, size: int) -> int:
    """The next multiple of a size, which is at least the size itself.

    Example:
        >>> [multiple(count, 16) for count in (0, 16, 17)]
        [16, 16, 32]
    """
    return max(1, -(-count // size)) * size


def fixed_sizes(tokens: int, rate: float, longest: int) -> Sizes:
    """The sizes for rows of up to so many tokens, of which a share `rate` are targets, and documents of up to `longest`.

    Example:
        >>> fixed_sizes(4096, 0.3, 128)
        Sizes(tokens=4112, targets=1376, documents=288, longest=128)
    """
    targets = rate * tokens + _SPREAD * math.sqrt(rate * tokens)
    documents = tokens // _TOKENS_PER_DOCUMENT + -(-tokens // longest)
    return Sizes(
        tokens=multiple(tokens + 1, _LEAST),
        targets=multiple(math.ceil(min(targets, tokens)), _LEAST),
        documents=documents,
        longest=longest,
    )


def filled(
    micro_batch: MicroBatch, positions: Tensor, sizes: Sizes | None = None
) -> tuple[MicroBatch, Tensor]:
    """A packed micro-batch with documents of further tokens, and targets of weight 0; and all their positions [M'].

    Without `sizes` tokens and targets are `rounded`; with them `cu_seqlens` has one length too, its last bound repeated.

    The first M of the losses are those that count. `positions` are those of the M targets. There is one further token at
    least: gradients of targets at one position would get into each other's way.
    """
    row, targets, bounds = micro_batch["input_ids"], micro_batch["targets"], micro_batch["cu_seqlens"]
    tokens, longest, device = row.shape[-1], micro_batch["max_length"], row.device
    if sizes is None:
        width, num_targets = rounded(tokens + 1), rounded(len(targets))
    else:
        width, num_targets = multiple(tokens + 1, sizes.tokens), multiple(len(targets), sizes.targets)
        longest = multiple(longest, sizes.longest)
    added = width - tokens
    documents = -(-added // longest)  # none is longer than positions allow
    if sizes is not None:
        documents = multiple(len(bounds) - 1 + documents, sizes.documents) - (len(bounds) - 1)
    ends = torch.arange(1, documents + 1, dtype=bounds.dtype, device=device) * longest + tokens
    wider = cast(MicroBatch, dict(micro_batch))
    wider["input_ids"] = functional.pad(row, (0, added))
    places = torch.arange(added, device=device) % longest
    wider["position_ids"] = torch.cat([micro_batch["position_ids"], places[None]], 1)
    wider["cu_seqlens"] = torch.cat([bounds, ends.clamp(max=width)])
    wider["max_length"] = longest
    more = (0, num_targets - len(targets))
    weights = micro_batch.get("target_weights")
    weights = torch.ones(len(targets), device=device) if weights is None else weights
    wider["targets"], wider["target_weights"] = functional.pad(targets, more), functional.pad(weights, more)
    return wider, functional.pad(positions, more, value=width - 1)
