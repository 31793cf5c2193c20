"""The cross entropy of a linear layer's logits on a CPU, with only their exponentials in memory.

The usual operators write the logits, their logarithms and three gradients (one filled with zeros) to memory and back.
Here the vocabulary is cut into chunks that stay in the cache: exponentials replace the logits, and in the backward pass
the gradient replaces the exponentials (as in Cut Cross-Entropy, arXiv 2411.09009, which computes the logits again
instead). The stride of a chunk's rows also suits matrix products; a stride of 30,522 logits does not.

Letters in shapes: N targets, H width, V vocabulary, C columns of a chunk, K chunks.
"""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

COLUMNS = {torch.float32: 1024, torch.bfloat16: 2048}
"""Approximate number of columns per chunk for each dtype of the products; other dtypes are not supported."""


def can_fuse(hidden: Tensor, layer: object) -> bool:
    """Whether `linear_cross_entropy` takes these states: eager mode on a CPU, and a plain layer with weights in fp32."""
    weight = getattr(layer, "weight", None)
    return (
        type(layer) is torch.nn.Linear
        and type(weight) is torch.nn.Parameter
        and weight.dtype == torch.float32
        and hidden.device.type == "cpu"
        and (hidden.dtype == weight.dtype or torch.is_autocast_enabled("cpu"))
        and _product_dtype(hidden) in COLUMNS
        and not torch.compiler.is_compiling()
    )


def linear_cross_entropy(hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
    """Returns the loss [N] in nats, in fp32, of targets [N] under logits of states [N, H], weights [V, H] and biases [V].

    As in `functional.linear` and `functional.cross_entropy`, products are computed in autocast's dtype, logits rounded
    to this dtype, and all else is computed in fp32. A second backward pass raises RuntimeError.

    Example:
        >>> states, weight = torch.zeros(2, 4), torch.ones(8, 4, requires_grad=True)
        >>> linear_cross_entropy(states, weight, None, torch.tensor([3, 5])).exp()
        tensor([8., 8.], grad_fn=<ExpBackward0>)
    """
    return _LinearCrossEntropy.apply(hidden, weight, bias, targets, _product_dtype(hidden))


def _product_dtype(hidden: Tensor) -> torch.dtype:
    """Returns the dtype of products of these states with fp32 weights: autocast's dtype, or that of the states."""
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else hidden.dtype


class _LinearCrossEntropy(torch.autograd.Function):
    """Saves exp(logits - m) of each chunk, where m is a row's largest logit in it, and factors to get probabilities."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, dtype: torch.dtype
    ) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            states, columns = hidden.to(dtype), weight.to(dtype)
            biases = None if bias is None else bias.to(dtype)
            ctx.chunks, ctx.kind = _Chunks(targets, len(weight), COLUMNS[dtype]), hidden.dtype
            target_logits = hidden.new_empty(len(targets), dtype=torch.float32)
            largest, sums = target_logits.new_empty((2, len(ctx.chunks.bounds), len(targets)))
            for i, (start, stop) in enumerate(ctx.chunks.bounds):
                part = columns[start:stop].t()
                logits = states @ part if biases is None else torch.addmm(biases[start:stop], states, part)
                logits = logits.float()
                rows, places = ctx.chunks.targets(i)
                target_logits[rows] = logits[rows, places]
                torch.amax(logits, 1, out=largest[i])
                torch.sum(logits.sub_(largest[i][:, None]).exp_(), 1, out=sums[i])
                ctx.chunks.values.append(logits)
            top = largest.amax(0)
            factors = largest.sub_(top).exp_()
            total = (sums * factors).sum(0)
            ctx.factors = factors.div_(total)
            ctx.save_for_backward(states, columns)
            return total.log_().add_(top).sub_(target_logits)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        states, columns = ctx.saved_tensors
        if not ctx.chunks.values:
            raise RuntimeError("gradients of linear_cross_entropy were taken before; compute the loss again")
        with torch.autocast("cpu", enabled=False):  # gradients are taken inside the step's autocast
            of_states = torch.zeros(states.shape)
            of_weight = torch.empty(columns.shape) if ctx.needs_input_grad[1] else None
            of_bias = torch.empty(len(columns)) if ctx.needs_input_grad[2] else None
            for i, (start, stop) in enumerate(ctx.chunks.bounds):
                of_logits = ctx.chunks.values.pop(0).mul_((ctx.factors[i] * gradient)[:, None])
                rows, places = ctx.chunks.targets(i)
                of_logits[rows, places] -= gradient[rows]
                if of_bias is not None:
                    torch.sum(of_logits, 0, out=of_bias[start:stop])
                if states.dtype == torch.float32:
                    of_states.addmm_(of_logits, columns[start:stop])
                    if of_weight is not None:
                        torch.mm(of_logits.t(), states, out=of_weight[start:stop])
                else:
                    of_logits = of_logits.to(states.dtype)
                    of_states += of_logits @ columns[start:stop]
                    if of_weight is not None:
                        of_weight[start:stop] = of_logits.t() @ states
        return of_states.to(ctx.kind), of_weight, of_bias, None, None


class _Chunks:
    """The vocabulary in chunks: the targets in each chunk, and the values [N, C] that are saved for it."""

    def __init__(self, targets: Tensor, size: int, columns: int) -> None:
        number = max(1, round(size / columns))
        width = -(-size // number // 64) * 64  # a multiple of the cache line, for all but the last
        edges = [*range(0, size, width), size]
        self.bounds = list(pairwise(edges))
        self.values: list[Tensor] = []
        self._order = targets.argsort()
        self._sorted = targets[self._order]
        self._cuts = torch.searchsorted(self._sorted, torch.tensor(edges)).tolist()

    def targets(self, number: int) -> tuple[Tensor, Tensor]:
        """Returns the rows whose targets lie in a chunk, and the targets' columns in the chunk."""
        mine = slice(*self._cuts[number : number + 2])
        return self._order[mine], self._sorted[mine] - self.bounds[number][0]
