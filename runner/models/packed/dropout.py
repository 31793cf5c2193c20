"""Dropout on a CPU by 16 random bits per element, as torch's random floats take longer than much of the model.

The bits are those of the element's key where the training step has set keys (`runner.models.packed.dropout_keys`), else
drawn. Attention with dropout has a backward pass without a mask, as in FlashAttention (arXiv 2205.14135): with weights A,
dropped and rescaled ones D, output O = D V and G = dO V^T, the gradient of the scores is D * G - A * rowsum(dO * O).
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from iolaus.runner.models.packed.chosen_queries import Chosen
from iolaus.runner.models.packed.documents import buckets
from iolaus.runner.models.packed.dropout_keys import DropoutKeys, bits_drawn, current_keys, number_modules

_LEVELS = 1 << 16
"""Values of 16 random bits."""


def can_drop(rate: float, tensor: Tensor) -> bool:
    """Whether dropout by 16 bits applies: eager mode on a CPU, with a rate that they can give."""
    here = tensor.device.type == "cpu" and not torch.compiler.is_compiling()
    return here and 1 / _LEVELS <= rate <= 1 - 1 / _LEVELS


def replace_dropout(model: nn.Module) -> None:
    """Replaces every `torch.nn.Dropout` of the model by `Dropout`, and gives every module random bits of its own."""
    number_modules(model)
    for module in model.modules():
        if type(module) is nn.Dropout and not module.inplace:
            module.__class__ = Dropout


class Dropout(nn.Dropout):
    """`torch.nn.Dropout` with 16 random bits per element on a CPU."""

    def forward(self, input: Tensor) -> Tensor:
        """`input` with elements dropped at `p`, the others scaled to keep the mean; in training only."""
        if not (self.training and can_drop(self.p, input)):
            return super().forward(input)
        keys = current_keys()
        found = None if keys is None else keys.of_elements(self, input.shape)
        return input * kept(bits_drawn(input.shape) if found is None else found, self.p, input.dtype)


class DroppedAttention(torch.autograd.Function):
    """Attention [T, N, H] over a flat row of documents, of queries, keys and values [T, N, H]; differentiable once.

    Documents of similar lengths are one padded batch.
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
        keys: Tensor | None = None,
        chosen: Chosen | None = None,
    ) -> Tensor:
        """Tokens see up to `before` others before and `behind` behind them, -1 is all.

        Weights are dropped at `rate`, by the `keys` [T] of the queries if given. With `chosen`, queries and `keys` are
        those of M tokens alone, which see all of their documents, and so is the result [M, N, H].
        """
        found = buckets(tuple(cu_seqlens.tolist()))
        ctx.buckets = [(each, each if chosen is None else each.of_chosen(chosen)) for each in found]
        ctx.scale, ctx.shapes = scale, (query.shape, key.shape, value.shape)
        query = query * scale
        saved, out = [], value.new_empty((*query.shape[:2], value.shape[2]))
        with torch.autocast("cpu", enabled=False):
            for bucket, asking in ctx.buckets:
                q, k, v = (
                    each.padded(x).contiguous()
                    for each, x in ((asking, query), (bucket, key), (bucket, value))
                )
                scores, mask = torch.matmul(q, k.transpose(-1, -2)), bucket.mask(before, behind, q)
                weights = torch.softmax(scores if mask is None else scores.add_(mask), -1)
                if keys is None:
                    bits = bits_drawn(weights.shape)
                else:
                    queries = asking.padded(keys[:, None, None])[:, 0, :, 0]
                    bits = DropoutKeys.of_weights(queries, *weights.shape[1::2])
                dropped = kept(bits, rate, weights.dtype).mul_(weights)
                asking.put(torch.matmul(dropped, v), out)
                saved += [q, k, v, weights, dropped]
        ctx.save_for_backward(out, *saved)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of query, key and value."""
        out, *saved = ctx.saved_tensors
        with torch.autocast("cpu", enabled=False):  # gradients are taken inside the step's autocast
            row_sums = (gradient * out).sum(-1, keepdim=True)
            found = tuple(map(out.new_empty, ctx.shapes))
            for i, (bucket, asking) in enumerate(ctx.buckets):
                q, k, v, weights, dropped = saved[5 * i : 5 * i + 5]
                g, sums = asking.padded(gradient).contiguous(), asking.padded(row_sums)
                of_scores = torch.matmul(g, v.transpose(-1, -2)).mul_(dropped)
                of_scores.addcmul_(weights, sums, value=-1)
                asking.put(torch.matmul(of_scores, k).mul_(ctx.scale), found[0])
                bucket.put(torch.matmul(of_scores.transpose(-1, -2), q), found[1])
                bucket.put(torch.matmul(dropped.transpose(-1, -2), g), found[2])
        return (*found, *[None] * 7)


def plain_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float, rate: float, queries: Tensor
) -> Tensor:
    """Attention [D, N, L, H] with dropout by the keys [D, L] of the queries; a bool mask is True where a key is seen."""
    scores = torch.matmul(query, key.transpose(-1, -2)) * scale
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    elif mask is not None:
        scores = scores + mask
    weights = torch.softmax(scores.float(), -1)
    weights = weights * kept(DropoutKeys.of_weights(queries, *weights.shape[1::2]), rate, weights.dtype)
    return torch.matmul(weights.to(value.dtype), value)


def kept(bits: Tensor, rate: float, dtype: torch.dtype) -> Tensor:
    """The factor of each element by its int16 bits: 0 with probability `rate`, else the one that keeps the mean."""
    gone = round(rate * _LEVELS)
    return bits.ge(gone - _LEVELS // 2).to(dtype).mul_(_LEVELS / (_LEVELS - gone))
