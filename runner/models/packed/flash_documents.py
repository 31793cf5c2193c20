"""Flash attention of torch on a CPU, document by document.

Letters in shapes: D documents, T tokens of all of them, M queries, N heads, H size of a head.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tiryns.runner.models.packed.documents import Chosen, Options, runs, window_mask
from tiryns.runner.patches.torch.flash import flash, flash_backward

Extents = list[tuple[int, int]]
"""For each batch, its number of documents, and the number of tokens of each document."""


def flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens: Tensor,
    options: Options,
    chosen: Chosen | None = None,
) -> Tensor:
    """Returns attention [T, N, H], without dropout or added scores.

    With `chosen`, only M tokens have queries; they see their whole documents, and the result is [M, N, H].
    """
    if torch.compiler.is_compiling():
        return document_attention(query, key, value, cu_seqlens, *options.sides, options.scale)[0]
    return _Documents.apply(query, key, value, cu_seqlens, options, chosen)


def _extents(cu_seqlens: Tensor, chosen: Chosen | None = None) -> tuple[Extents, Extents]:
    """Returns the extents of the queries and of the keys."""
    if chosen is None:
        keys = [((stop - start) // length, length) for start, stop, length in runs(cu_seqlens)]
        return keys, keys
    lengths = cu_seqlens.diff().tolist()
    return [(1, count) for count in chosen.counts(cu_seqlens)], [(1, length) for length in lengths]


def _batches(flat: Tensor, extents: Extents) -> list[Tensor]:
    """Returns the documents of [T, N, H] as views [D, N, length, H]."""
    parts = flat.transpose(0, 1)[None].split([number * length for number, length in extents], 2)
    return [
        part if number == 1 else part[0].unflatten(1, (number, length)).transpose(0, 1)
        for part, (number, length) in zip(parts, extents, strict=True)
    ]


def _flat(batch: Tensor) -> Tensor:
    """Returns [D, N, length, H] as [tokens, N, H]."""
    return batch.transpose(1, 2).flatten(0, 1)


def _forward(
    states: Sequence[Tensor], extents: tuple[Extents, Extents], options: Options
) -> tuple[Tensor, list[Tensor]]:
    """Returns the attention [M, N, H], and for each batch the log-sum-exp [D, N, length] of its scores."""
    outs, sums = [], []
    of_queries, of_keys = extents
    batches = [_batches(x, each) for x, each in zip(states, (of_queries, of_keys, of_keys), strict=True)]
    for q, k, v, (_, length) in zip(*batches, of_keys, strict=True):
        if q.shape[2] == 0:
            sums.append(q[..., 0])
            continue
        mask = window_mask(length, *options.sides, q)
        out, log_sums = flash(q, k, v, attn_mask=mask, scale=options.scale)
        outs.append(_flat(out))
        sums.append(log_sums)
    return torch.cat(outs) if outs else torch.empty_like(states[0]), sums


def _backward(
    gradient: Tensor,
    tensors: Sequence[Tensor],
    sums: Sequence[Tensor],
    extents: tuple[Extents, Extents],
    options: Options,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the gradients of query, key and value; `tensors` are these three and the attention."""
    of_queries, of_keys = extents
    kinds = (of_queries, of_queries, of_keys, of_keys, of_queries)
    batches = [_batches(x, extent) for x, extent in zip((gradient, *tensors), kinds, strict=True)]
    gradients: tuple[list[Tensor], ...] = ([], [], [])
    for *parts, logs, (number, length) in zip(*batches, sums, of_keys, strict=True):
        if parts[1].shape[2]:
            mask, scale = window_mask(length, *options.sides, parts[1]), options.scale
            grads = [_flat(x) for x in flash_backward(*parts, logs, 0.0, False, attn_mask=mask, scale=scale)]
        else:
            nothing = gradient.new_zeros((number * length, *gradient.shape[1:]))
            grads = [nothing[:0], nothing, nothing]
        for chunks, each in zip(gradients, grads, strict=True):
            chunks.append(each)
    of_query, of_key, of_value = map(torch.cat, gradients)
    return of_query, of_key, of_value


class _Documents(torch.autograd.Function):
    """Flash attention in eager mode, where a Function is faster than a custom operator."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        cu_seqlens: Tensor,
        options: Options,
        chosen: Chosen | None,
    ) -> Tensor:
        ctx.settings = (_extents(cu_seqlens, chosen), options)
        out, ctx.sums = _forward((query, key, value), *ctx.settings)
        ctx.save_for_backward(query, key, value, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return (*_backward(gradient, ctx.saved_tensors, ctx.sums, *ctx.settings), None, None, None)


@torch.library.custom_op("tiryns::document_attention", mutates_args=())
def document_attention(
    query: Tensor, key: Tensor, value: Tensor, cu_seqlens: Tensor, before: int, behind: int, scale: float
) -> tuple[Tensor, Tensor]:
    """Returns the attention [T, N, H] and log-sum-exp [T * N]; an operator that torch.compile does not trace into."""
    options = Options((before, behind), scale)
    out, sums = _forward((query, key, value), _extents(cu_seqlens), options)
    return out, torch.cat([each.flatten() for each in sums])


@torch.library.custom_op("tiryns::document_attention_backward", mutates_args=())
def document_attention_backward(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    sums: Tensor,
    cu_seqlens: Tensor,
    before: int,
    behind: int,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the gradients [T, N, H] of query, key and value."""
    extents = _extents(cu_seqlens)
    heads = query.shape[1]
    logs = [
        part.view(number, heads, length)
        for part, (number, length) in zip(
            sums.split([number * length * heads for number, length in extents[0]]), extents[0], strict=True
        )
    ]
    options = Options((before, behind), scale)
    return _backward(gradient, (query, key, value, out), logs, extents, options)


@document_attention.register_fake
def _(query: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    return query.new_empty(query.shape), query.new_empty(query.shape[0] * query.shape[1], dtype=torch.float32)


@document_attention_backward.register_fake
def _(gradient: Tensor, query: Tensor, *_: object) -> tuple[Tensor, Tensor, Tensor]:
    return query.new_empty(query.shape), query.new_empty(query.shape), query.new_empty(query.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.before, ctx.behind, ctx.scale = inputs
    ctx.save_for_backward(*tensors, *output)


def _operator_backward(ctx: Any, gradient: Tensor, _: object) -> tuple[Tensor | None, ...]:
    query, key, value, cu_seqlens, out, sums = ctx.saved_tensors
    tensors = (query, key, value, out, sums, cu_seqlens, ctx.before, ctx.behind, ctx.scale)
    return (*document_attention_backward(gradient, *tensors), None, None, None, None)


document_attention.register_autograd(_operator_backward, setup_context=_save)
