"""Dropout on a CPU, where torch draws a random float for every element, which takes longer than much of the model.

Here 16 random bits decide on each. Attention with dropout has a backward pass of its own besides, which needs no mask:
with weights A, dropped and rescaled ones D, output O = D V and G = dO V^T, the gradient of the scores is
D * G - A * rowsum(dO * O), by which FlashAttention (Dao et al. 2022, arXiv 2205.14135) saves the row sums of A * dA.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

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
    """Attention [..., L, H] of queries, keys and values [..., L, H]; differentiable once."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, rate: float, scale: float
    ) -> Tensor:
        """`mask` [L, L] is added to the scores; each weight is dropped at `rate`, which `can_drop`."""
        with torch.autocast("cpu", enabled=False):
            scores = torch.matmul(query * scale, key.transpose(-1, -2))
            weights = torch.softmax(scores if mask is None else scores.add_(mask), -1)
            dropped = weights * _kept(weights, rate)
            out = torch.matmul(dropped, value)
        ctx.save_for_backward(query, key, value, weights, dropped, out)
        ctx.scale = scale
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of query, key and value."""
        query, key, value, weights, dropped, out = ctx.saved_tensors
        row_sums = (gradient * out).sum(-1, keepdim=True)
        of_scores = torch.matmul(gradient, value.transpose(-1, -2)).mul_(dropped)
        of_scores.addcmul_(weights, row_sums, value=-1).mul_(ctx.scale)
        of_query = torch.matmul(of_scores, key)
        of_key = torch.matmul(of_scores.transpose(-1, -2), query)
        of_value = torch.matmul(dropped.transpose(-1, -2), gradient)
        return of_query, of_key, of_value, None, None, None


def _kept(like: Tensor, rate: float) -> Tensor:
    """0 at `rate`, else what keeps the mean; four fates to a random number of 64 bits."""
    drawn = torch.empty((like.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), 2**63 - 1)
    fates = drawn.view(torch.int16)[: like.numel()].view(like.shape)
    gone = round(rate * _FATES)
    return fates.ge(gone - _FATES // 2).to(like.dtype).mul_(_FATES / (_FATES - gone))
