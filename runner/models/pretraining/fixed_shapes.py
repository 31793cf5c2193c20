"""Fills packed rows with a few more tokens: to recurring lengths, or to one shape for CUDA graphs.

In bf16 on a CPU oneDNN compiles its kernels for each shape. A CUDA graph launches all kernels at once, for one shape; the
next replay overwrites its results. So `encode` begins a micro-batch, and `keep_gradients` ends it.

Letters in shapes: D documents, T tokens, M targets, H width.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.optim.compiled import Compiled
from tiryns.runner.patches.torch import foreach

_LEAST = 16
"""Smallest step between sizes of matrices: as many rows as a vector register holds numbers."""

_SPREAD = 4
"""Standard deviations by which the targets of a full row may exceed their mean, as each is drawn independently."""

_TOKENS_PER_DOCUMENT = 16
"""If documents have fewer tokens on average, a row can have more bounds than usual, which are filled to a multiple."""


class Sizes(NamedTuple):
    """Sizes to which packed micro-batches are filled; a micro-batch that exceeds a size is filled to a multiple."""

    tokens: int
    targets: int
    documents: int
    longest: int
    """The most tokens of a document."""


def round_up(count: int) -> int:
    """Rounds a count up to one of 8 to 16 sizes per power of 2; the result is 3 % larger on average.

    Example:
        >>> [round_up(count) for count in (1, 148, 512, 513, 2047)]
        [16, 160, 512, 544, 2048]
    """
    step = max(_LEAST, 1 << max(0, (count // 16).bit_length() - 1))
    return -(-count // step) * step


def multiple(count: int, size: int) -> int:
    """Rounds a count up to a multiple of `size`, at least to `size` itself.

    Example:
        >>> [multiple(count, 16) for count in (0, 16, 17)]
        [16, 16, 32]
    """
    return max(1, -(-count // size)) * size


def fixed_sizes(tokens: int, rate: float, longest: int) -> Sizes:
    """Returns the sizes for rows of up to `tokens` tokens with a share `rate` of targets, and documents up to `longest`.

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


def fill(micro_batch: MicroBatch, positions: Tensor, sizes: Sizes | None = None) -> tuple[MicroBatch, Tensor]:
    """Returns a packed micro-batch with added documents and targets of weight 0, and all positions [M'] of targets.

    Without `sizes`, `round_up` gives the numbers of tokens and targets. With them the last bound of `cu_seqlens` repeats.

    Only the first M losses, of the targets at `positions` [M], count. At least one token is added, so that added targets
    share no position with the others, as their gradients would collide.
    """
    row, targets, bounds = micro_batch["input_ids"], micro_batch["targets"], micro_batch["cu_seqlens"]
    tokens, longest, device = row.shape[-1], micro_batch["max_length"], row.device
    if sizes is None:
        width, num_targets = round_up(tokens + 1), round_up(len(targets))
    else:
        width, num_targets = multiple(tokens + 1, sizes.tokens), multiple(len(targets), sizes.targets)
        longest = multiple(longest, sizes.longest)
    extra = width - tokens
    documents = -(-extra // longest)  # none is longer than positions allow
    if sizes is not None:
        documents = multiple(len(bounds) - 1 + documents, sizes.documents) - (len(bounds) - 1)
    ends = torch.arange(1, documents + 1, dtype=bounds.dtype, device=device) * longest + tokens
    wider = cast(MicroBatch, dict(micro_batch))
    wider["input_ids"] = functional.pad(row, (0, extra))
    places = torch.arange(extra, device=device) % longest
    wider["position_ids"] = torch.cat([micro_batch["position_ids"], places[None]], 1)
    wider["cu_seqlens"] = torch.cat([bounds, ends.clamp(max=width)])
    wider["max_length"] = longest
    more = (0, num_targets - len(targets))
    weights = micro_batch.get("target_weights")
    weights = torch.ones(len(targets), device=device) if weights is None else weights
    wider["targets"], wider["target_weights"] = functional.pad(targets, more), functional.pad(weights, more)
    return wider, functional.pad(positions, more, value=width - 1)


_UNKNOWN_RATE = 0.125
"""The share of targets if the objective does not state it; a row with more targets is filled to a multiple."""


class FixedShapes:
    """The encoder, and the head with its loss, compiled for micro-batches that are filled to `sizes`.

    A head that cannot be compiled is computed as without fixed shapes.
    """

    def __init__(
        self,
        pretrained: PreTrainedModel,
        losses: Callable[..., tuple[Tensor, Tensor]],
        plain: Callable[..., tuple[Tensor, Tensor]] | None,
        sizes: Sizes,
    ) -> None:
        """Takes `losses`, which computes losses of a chunk of targets; `plain` runs if it cannot be compiled."""

        def states(arguments: dict[str, object]) -> Tensor:
            return pretrained.base_model(**arguments)[0]

        self.sizes = sizes
        self._encode = Compiled(states, "encoder in fixed shapes", dynamic=False, cuda_graphs=True)
        self.losses = Compiled(
            losses, "head and loss in fixed shapes", dynamic=False, plain=plain, cuda_graphs=True
        )

    @property
    def works(self) -> bool:
        """Whether the encoder could be compiled as one graph so far; otherwise filling rows would gain nothing."""
        return self._encode.works

    def encode(self, arguments: dict[str, object]) -> Tensor:
        """Returns the encoder's last hidden states [1, T, H], which are valid until the next call."""
        # a step of the graphs is one micro-batch: else a chunk of the head that is computed again would begin one
        torch.compiler.cudagraph_mark_step_begin()
        return self._encode(arguments)


def sizes_of(data: Any) -> Sizes:
    """Returns the sizes for micro-batches of a connected data module, by the highest target rate of its phases."""
    collators = [data.collator, *(part.collator for part in data.parts if part.collator is not None)]
    rates = [each.rate_at(progress) for each in collators for progress in (0.0, 1.0)]
    rate = max((rate for rate in rates if rate is not None), default=_UNKNOWN_RATE)
    tokens = int(data.micro_batch_tokens)
    return fixed_sizes(tokens, rate, min(tokens, int(getattr(data, "max_length", tokens))))


def keep_gradients(parameters: Iterable[nn.Parameter], owners: set[nn.Parameter]) -> None:
    """Copies the gradients of parameters not yet in `owners` to their own memory; adds these parameters to `owners`.

    Autograd takes a step's first gradient as the parameter's `grad` without a copy, and adds later gradients in place.
    """
    new = {p: p.grad for p in parameters if p.grad is not None and p not in owners}
    if new:
        copies = [torch.empty_like(gradient) for gradient in new.values()]
        foreach.copy_(copies, list(new.values()))
        for parameter, copy in zip(new, copies, strict=True):
            parameter.grad = copy
        owners.update(new)
