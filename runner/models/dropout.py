"""Dropout on a CPU, where torch draws a random float for every element, which takes longer than much of the model.

Here 16 random bits decide on each. Attention with dropout has a backward pass of its own besides, which needs no mask:
with weights A, dropped and rescaled ones D, output O = D V and G = dO V^T, the gradient of the scores is
D * G - A * rowsum(dO * O), by which FlashAttention (Dao et al. 2022, arXiv 2205.14135) saves the row sums of A * dA.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from .documents import buckets

_FATES = 1 << 16
"""16 bits decide, so a rate is met to one in 65,536."""


def can_drop(rate: float, tensor: Tensor) -> bool:
    """Whether this is the place, and the rate one that 16 bits can meet."""
    here = tensor.device.type == "cpu" and not torch.compiler.is_compiling()
    return here and 1 / _FATES <= rate <= 1 - 1 / _FATES


def quicken(model: nn.Module) -> None:
    """Has every `torch.nn.Dropout` of the model draw its random numbers quickly."""
    for module in model.modules():
        if type(module) is nn.Dropout and not module.inplace:
            module.__class__ = Dropout


class Dropout(nn.Dropout):
    """Torch's, with 16 random bits to an element on a CPU."""

    def forward(self, input: Tensor) -> Tensor:
        """`input` with elements dropped at `p`, the others scaled to keep the mean; in training only."""
        if not (self.training and can_drop(self.p, input)):
            return super().forward(input)
        return input * _kept(input, self.p)


class DroppedAttention(torch.autograd.Function):
    """Attention [T, N, H] over a flat row of documents, of queries, keys and values [T, N, H]; differentiable once.

    Documents of like lengths go through it as one padded batch: a document alone would take as long as many short ones.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        cu_seqlens: Tensor,
        before: int,
        behind: int,
        rate: float,
        scale: float,
    ) -> Tensor:
        """Tokens see up to `before` others before and `behind` behind them, -1 is all; weights are dropped at `rate`."""
        ctx.buckets, ctx.scale = buckets(tuple(cu_seqlens.tolist())), scale
        ctx.shape = query.shape
        query = query * scale
        saved, out = [], value.new_empty(value.shape)
        with torch.autocast("cpu", enabled=False):
            for bucket in ctx.buckets:
                q, k, v = (bucket.padded(x).contiguous() for x in (query, key, value))
                scores, mask = torch.matmul(q, k.transpose(-1, -2)), bucket.mask(before, behind, q)
                weights = torch.softmax(scores if mask is None else scores.add_(mask), -1)
                dropped = _kept(weights, rate).mul_(weights)
                bucket.put(torch.matmul(dropped, v), out)
                saved += [q, k, v, weights, dropped]
        ctx.save_for_backward(out, *saved)
        return out

    @staticmethod
    @once_differentiable
    @torch.autocast("cpu", enabled=False)  # gradients are taken inside the step's autocast
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of query, key and value."""
        out, *saved = ctx.saved_tensors
        row_sums = (gradient * out).sum(-1, keepdim=True)
        found = (out.new_empty(ctx.shape), out.new_empty(ctx.shape), torch.empty_like(out))
        for i, bucket in enumerate(ctx.buckets):
            q, k, v, weights, dropped = saved[5 * i : 5 * i + 5]
            g, sums = bucket.padded(gradient).contiguous(), bucket.padded(row_sums)
            of_scores = torch.matmul(g, v.transpose(-1, -2)).mul_(dropped)
            of_scores.addcmul_(weights, sums, value=-1)
            bucket.put(torch.matmul(of_scores, k).mul_(ctx.scale), found[0])
            bucket.put(torch.matmul(of_scores.transpose(-1, -2), q), found[1])
            bucket.put(torch.matmul(dropped.transpose(-1, -2), g), found[2])
        return (*found, None, None, None, None, None)


def _kept(like: Tensor, rate: float) -> Tensor:
    """0 at `rate`, else what keeps the mean; four fates to a random number of 64 bits."""
    drawn = torch.empty((like.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), 2**63 - 1)
    fates = drawn.view(torch.int16)[: like.numel()].view(like.shape)
    gone = round(rate * _FATES)
    return fates.ge(gone - _FATES // 2).to(like.dtype).mul_(_FATES / (_FATES - gone))
