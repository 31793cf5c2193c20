"""Dropout on a CPU by 16 random bits per element, as torch's random floats take longer than much of the model.

The bits come from the element's key if the training step has set keys (`runner.models.packed.dropout_keys`), else from
torch. Attention has a backward pass without a dropout mask, as in FlashAttention (arXiv 2205.14135). With weights A (D
after dropout and rescaling), output O = D V and G = dO V^T, the gradient of the scores is D * G - A * rowsum(dO * O).
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from tiryns.runner.models.packed.documents import Chosen, Options, buckets
from tiryns.runner.models.packed.dropout_keys import DropoutKeys, bits_drawn, current_keys, number_modules
from tiryns.runner.widening import at_least_fp32, widen

_LEVELS = 1 << 16
"""Values of 16 random bits."""


def can_drop(rate: float, tensor: Tensor) -> bool:
    """Whether dropout by 16 bits applies: eager mode on a CPU, with a rate that 16 bits can express."""
    here = tensor.device.type == "cpu" and not torch.compiler.is_compiling()
    return here and 1 / _LEVELS <= rate <= 1 - 1 / _LEVELS


def has_dropout(model: nn.Module) -> bool:
    """Whether a model drops anything in training: by a dropout module, or by a rate in one of its configs."""
    configs = {
        id(config): config for m in model.modules() if (config := getattr(m, "config", None)) is not None
    }
    rates = [value for each in configs.values() for name, value in vars(each).items() if "drop" in name]
    rates += [getattr(module, "p", 0.0) for module in model.modules() if isinstance(module, nn.Dropout)]
    return any(isinstance(rate, float) and rate > 0 for rate in rates)


def replace_dropout(model: nn.Module) -> None:
    """Replaces every `torch.nn.Dropout` of the model by `Dropout`, and gives every module random bits of its own."""
    number_modules(model)
    for module in model.modules():
        if type(module) is nn.Dropout and not module.inplace:
            module.__class__ = Dropout


class Dropout(nn.Dropout):
    """`torch.nn.Dropout` with 16 random bits per element on a CPU."""

    def forward(self, input: Tensor) -> Tensor:
        """Returns `input`; in training drops elements at rate `p` and scales the others to keep the mean."""
        if not (self.training and can_drop(self.p, input)):
            return super().forward(input)
        keys = current_keys()
        bits = None if keys is None else keys.of_elements(self, input.shape)
        return input * factors_of(bits_drawn(input.shape) if bits is None else bits, self.p, input.dtype)


class DroppedAttention(torch.autograd.Function):
    """Attention [T, N, H] over a flat row of documents, from queries, keys and values [T, N, H]; differentiable once.

    Documents of similar lengths are one padded batch.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        cu_seqlens: Tensor,
        options: Options,
        chosen: Chosen | None = None,
    ) -> Tensor:
        """Computes attention; drops weights by the queries' dropout keys [T] if `options` has keys, else at random.

        With `chosen`, only M tokens have queries and dropout keys. These tokens see their whole documents; the result is
        [M, N, H].
        """
        heads = query.shape[1]
        k_rows = buckets(tuple(cu_seqlens.tolist()), heads)
        q_rows = k_rows if chosen is None else k_rows.of_chosen(chosen, heads)
        ctx.k_rows, ctx.q_rows, ctx.scale = k_rows, q_rows, options.scale
        query, out, tensors = query * options.scale, q_rows.empty(value), []
        with torch.autocast("cpu", enabled=False):
            for q_part, k_part in zip(q_rows.parts, k_rows.parts, strict=True):
                q, k, v = q_part.pad(query), k_part.pad(key), k_part.pad(value)
                scores = torch.bmm(q, k.transpose(1, 2)).unflatten(0, (-1, heads))
                if (mask := k_part.mask(options.sides, q)) is not None:
                    scores.add_(mask)
                weights = torch.softmax(scores, -1)
                if options.keys is None:
                    bits = bits_drawn(weights.shape)
                else:
                    bits = DropoutKeys.of_weights(options.keys[q_part.tokens], heads, weights.shape[-1])
                dropped_weights = factors_of(bits, options.dropout, weights.dtype).mul_(weights).flatten(0, 1)
                torch.bmm(dropped_weights, v, out=q_part.part(out))
                tensors += [q, k, v, weights.flatten(0, 1), dropped_weights]
        result = q_rows.flat(out, heads)
        ctx.save_for_backward(result, *tensors)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        out, *tensors = ctx.saved_tensors
        q_rows, k_rows, heads = ctx.q_rows, ctx.k_rows, out.shape[1]
        of_query, of_key, of_value = q_rows.empty(tensors[0]), k_rows.empty(tensors[0]), k_rows.empty(out)
        with torch.autocast("cpu", enabled=False):  # gradients are taken inside the step's autocast
            row_sums = (gradient * out).sum(-1, keepdim=True)
            for i, (q_part, k_part) in enumerate(zip(q_rows.parts, k_rows.parts, strict=True)):
                q, k, v, weights, dropped_weights = tensors[5 * i : 5 * i + 5]
                g, sums = q_part.pad_with_zeros(gradient), q_part.pad_with_zeros(row_sums)
                of_scores = torch.bmm(g, v.transpose(1, 2)).mul_(dropped_weights)
                of_scores.addcmul_(weights, sums, value=-1)
                torch.bmm(of_scores, k, out=q_part.part(of_query))
                torch.bmm(of_scores.transpose(1, 2), q, out=k_part.part(of_key))
                torch.bmm(dropped_weights.transpose(1, 2), g, out=k_part.part(of_value))
            of_query.mul_(ctx.scale)
        gradients = (q_rows.flat(of_query, heads), k_rows.flat(of_key, heads), k_rows.flat(of_value, heads))
        return (*gradients, None, None, None)


def plain_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float, rate: float, queries: Tensor
) -> Tensor:
    """Returns attention [D, N, L, H]; `queries` [D, L] are dropout keys; a bool mask is True where a key is visible."""
    scores = torch.matmul(query, key.transpose(-1, -2)) * scale
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    elif mask is not None:
        scores = scores + mask
    weights = torch.softmax(widen(scores), -1)
    weights = weights * factors_of(DropoutKeys.of_weights(queries, *weights.shape[1::2]), rate, weights.dtype)
    return torch.matmul(weights.to(value.dtype), value)


def factors_of(bits: Tensor, rate: float, dtype: torch.dtype) -> Tensor:
    """Returns each element's factor from its int16 bits: 0 with probability `rate`, else a factor that keeps the mean."""
    gone = round(rate * _LEVELS)
    # as floats, which hold the bits exactly: torch compares numbers with a result of bools one by one
    exact = at_least_fp32(dtype)
    factors = bits.to(exact).ge_(gone - _LEVELS // 2).mul_(_LEVELS / (_LEVELS - gone))
    return factors.to(dtype)
