"""Training on packed rows of one shape, whose kernels a GPU replays as CUDA graphs, with one launch for all of them.

What a graph returns lies in memory that the next replay overwrites: `encode` begins a micro-batch, and `keep_gradients`
ends it. Letters in shapes: T tokens, H width.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tiryns.runner.models.quick.filled import Sizes, fixed_sizes
from tiryns.runner.optim.compiled import Compiled
from tiryns.runner.patches.torch import foreach

_UNKNOWN_RATE = 0.125
"""The share of targets where the objective does not tell it: a row with more has a multiple of so many."""


class FixedShapes:
    """The encoder, and the head with its loss, compiled for micro-batches that are filled to `sizes`.

    Where the head cannot be compiled, it is computed as without them.
    """

    def __init__(
        self,
        pretrained: PreTrainedModel,
        losses: Callable[..., tuple[Tensor, Tensor]],
        plain: Callable[..., tuple[Tensor, Tensor]] | None,
        sizes: Sizes,
    ) -> None:
        """Takes the function of the losses of a chunk of targets, and what computes it where it cannot be compiled."""

        def states(arguments: dict[str, object]) -> Tensor:
            return pretrained.base_model(**arguments)[0]

        self.sizes = sizes
        self._encode = Compiled(states, "encoder in fixed shapes", dynamic=False, cuda_graphs=True)
        self.losses = Compiled(
            losses, "head and loss in fixed shapes", dynamic=False, plain=plain, cuda_graphs=True
        )

    @property
    def works(self) -> bool:
        """Whether the encoder could be compiled as one graph so far: else filling rows would gain nothing."""
        return self._encode.works

    def encode(self, arguments: dict[str, object]) -> Tensor:
        """The encoder's last hidden states [1, T, H], until the next call."""
        # a step of the graphs is one micro-batch: else a chunk of the head that is computed again would begin one
        torch.compiler.cudagraph_mark_step_begin()
        return self._encode(arguments)


def sizes_of(data: Any) -> Sizes:
    """The sizes for micro-batches of a data module that is connected to its objective; phases may have their own."""
    collators = [data.collator, *(part.collator for part in data.parts if part.collator is not None)]
    rates = [each.rate_at(done) for each in collators for done in (0.0, 1.0)]
    rate = max((rate for rate in rates if rate is not None), default=_UNKNOWN_RATE)
    tokens = int(data.micro_batch_tokens)
    return fixed_sizes(tokens, rate, min(tokens, int(getattr(data, "max_length", tokens))))


def keep_gradients(parameters: Iterable[nn.Parameter], kept: set[nn.Parameter]) -> None:
    """Moves the gradients of parameters that are not in `kept` yet into memory of their own, and notes them there.

    Autograd makes the first gradient of a step the parameter's own, and adds the others to it in place.
    """
    new = {p: p.grad for p in parameters if p.grad is not None and p not in kept}
    if new:
        copies = [torch.empty_like(gradient) for gradient in new.values()]
        foreach.copy_(copies, list(new.values()))
        for parameter, copy in zip(new, copies, strict=True):
            parameter.grad = copy
        kept.update(new)
