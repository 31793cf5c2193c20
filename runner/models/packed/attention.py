"""Attention over one packed row of documents, which do not see each other, as an interface of transformers.

- On a GPU in half precision: variable-length flash attention, of the package `flash_attn` or torch's own.
- On a CPU: flash attention document by document (`flash_documents`). If a layer's results are used only for some tokens,
  only the queries of these tokens are computed.
- On a GPU in fp32, or with dropout that the kernel lacks (as torch's kernel does): documents as padded rows. On a CPU
  with dropout: `DroppedAttention`.
- If most of the rows would be padding, or flash attention is excluded on a CPU: a loop over the documents.
- With scores of positions that a model adds (ALiBi, GPT-BERT): padded rows on a GPU, a loop on a CPU.

Letters in shapes: D documents, T tokens of all of them, N heads, H size of a head.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from tiryns.runner.models.packed.causal import causal_mask, causal_of
from tiryns.runner.models.packed.documents import (
    Chosen,
    Options,
    chosen_queries,
    documents,
    flat_places,
    one_per_query_head,
    padded_places,
    runs,
    sees_all,
    window_mask,
)
from tiryns.runner.models.packed.dropout import DroppedAttention, can_drop, plain_attention
from tiryns.runner.models.packed.dropout_keys import current_keys
from tiryns.runner.models.packed.flash_documents import flash_attention
from tiryns.runner.models.packed.kernels import flash_kernel, gpu_has_flash
from tiryns.runner.widening import widen

NAME = "packed_documents"
"""The name of this attention in transformers."""

States = tuple[Tensor, Tensor, Tensor]
"""Queries, keys and values [T, N, H] of a packed row."""

_MOST_PLACES = 4
"""Most positions of padded rows per token; if there are more, documents are computed one by one."""


def packed_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    cu_seq_lens_q: Tensor | None = None,
    max_length_q: int | None = None,
    position_scores: Callable[[Tensor, Tensor], Tensor] | None = None,
    **_: object,
) -> tuple[Tensor, None]:
    """Maps queries [1, N, T, H], keys and values [1, N or fewer, T, H] to [1, T, N, H], for any model of transformers.

    Document d is tokens `cu_seq_lens_q[d]` to `cu_seq_lens_q[d + 1] - 1` (int32 [D + 1]). With a `sliding_window` a token
    sees only tokens nearer than that. If the module `is_causal`, or its encoder reads causally, it sees no later tokens.
    Raises ValueError for padded rows, which come without `cu_seq_lens_q`.
    """
    if cu_seq_lens_q is None or max_length_q is None:
        raise ValueError("a model set up for packed documents got rows that do not say where documents begin")
    if torch.is_autocast_enabled(query.device.type):
        dtype = torch.get_autocast_dtype(query.device.type)
        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
    key, value = (one_per_query_head(x, query) for x in (key, value))
    states = (query[0].transpose(0, 1), key[0].transpose(0, 1), value[0].transpose(0, 1))
    before = -1 if sliding_window is None else sliding_window - 1
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    options = Options((before, before), scale, dropout, position_scores)
    causal = causal_of(module)
    if isinstance(causal, dict):
        return _each_way(module, states, causal, options)[None], None
    if getattr(module, "is_causal", False) if causal is None else causal:
        options = options._replace(sides=(before, 0))
    selection = chosen_queries(module)
    if selection is not None and _takes_chosen(options, max_length_q, query):
        return _attend_chosen(module, states, cu_seq_lens_q, options, selection)[None], None
    return _attend(module, states, cu_seq_lens_q, max_length_q, options)[None], None


def _attend(
    module: torch.nn.Module, states: States, cu_seqlens: Tensor, longest: int, options: Options
) -> Tensor:
    """Returns the attention [T, N, H] by the available kernel."""
    query, compiling = states[0], torch.compiler.is_compiling()
    flash = options.bias_of is None and (compiling or torch.backends.cuda.flash_sdp_enabled())
    if flash and options.dropout == 0 and query.device.type == "cpu":
        q, k, v = (widen(x) for x in states)  # backward in bf16 is up to ten times slower
        return flash_attention(q, k, v, cu_seqlens, options).to(query.dtype)
    if flash and _has_flash(query):
        kernel = flash_kernel(options.sides, options.scale, query.shape[-1], options.dropout)
        if kernel is not None:
            return kernel(*states, cu_seqlens, cu_seqlens, longest, longest)
    if query.device.type != "cpu" and (len(cu_seqlens) - 1) * longest <= _MOST_PLACES * len(query):
        return _attend_padded(states, cu_seqlens, longest, options)
    return _loop(module, states, cu_seqlens, options)


def _takes_chosen(options: Options, longest: int, query: Tensor) -> bool:
    """Whether a CPU can compute chosen queries alone: in eager mode, if tokens see whole documents of up to `longest`."""
    plain = sees_all(longest, *options.sides) and options.bias_of is None
    drops = options.dropout == 0 or can_drop(options.dropout, query)
    eager = query.device.type == "cpu" and not torch.compiler.is_compiling()
    return plain and drops and eager and torch.backends.cuda.flash_sdp_enabled()


def _attend_chosen(
    module: torch.nn.Module, states: States, cu_seqlens: Tensor, options: Options, chosen: Chosen
) -> Tensor:
    """Returns the attention [T, N, H] of the chosen queries, zeros for the others."""
    query, key, value = states
    q, k, v = (widen(x) for x in (query.index_select(0, chosen.positions), key, value))
    options = options._replace(sides=(-1, -1))
    if options.dropout == 0:
        out = flash_attention(q, k, v, cu_seqlens, options, chosen)
    else:
        keys = current_keys()
        mine = None if keys is None else keys.of_queries(module)[chosen.positions]
        out = DroppedAttention.apply(q, k, v, cu_seqlens, options._replace(keys=mine), chosen)
    return torch.zeros_like(query).index_copy(0, chosen.positions, out.to(query.dtype))


@torch.compiler.disable
def _each_way(module: torch.nn.Module, states: States, parts: dict[str, Any], options: Options) -> Tensor:
    """Computes attention [T, N, H] of documents that are read both ways, then of documents that are read causally.

    Both parts count as one call of the module for its dropout keys.
    """
    q, k, v = states
    current = current_keys() if can_drop(options.dropout, q) else None
    keys = None if current is None else current.of_queries(module)
    outs = []
    for name in ("both", "causal"):
        mine = parts[name]["tokens"]
        part_states = (q.index_select(0, mine), k.index_select(0, mine), v.index_select(0, mine))
        extent = (parts[name]["cu_seqlens"], parts[name]["max_length"])
        sides = (options.sides[0], 0) if name == "causal" else options.sides
        part_options = options._replace(sides=sides, keys=None if keys is None else keys[mine])
        outs.append(_attend(module, part_states, *extent, part_options))
    places = torch.cat([parts[name]["tokens"] for name in ("both", "causal")])
    return torch.cat(outs).index_select(0, places.argsort())


def _has_flash(query: Tensor) -> bool:
    """Whether flash attention takes these queries: half precision, heads of up to 256, a GPU with flash attention."""
    half = query.is_cuda and query.dtype in (torch.float16, torch.bfloat16)
    return half and query.shape[-1] <= 256 and gpu_has_flash(query.device)


def _attend_padded(states: States, cu_seqlens: Tensor, longest: int, options: Options) -> Tensor:
    """Returns the attention [T, N, H], computed on the documents in rows padded to `longest` tokens."""
    places, gaps = padded_places(cu_seqlens, longest)
    q, k, v = (x[places].transpose(1, 2) for x in states)
    unseen = gaps[:, None, None]
    window = window_mask(longest, *options.sides, q)
    if window is not None:  # a place without a token may be too far from all others: nan, did it not see them
        unseen = (unseen | (window < 0)) & ~gaps[:, None, :, None]
    mask = ~unseen if options.bias_of is None else options.bias_of(q, k).masked_fill(unseen, -torch.inf)
    out = functional.scaled_dot_product_attention(q, k, v, mask, options.dropout, scale=options.scale)
    return out.transpose(1, 2).flatten(0, 1)[flat_places(cu_seqlens, longest, len(states[0]))]


@torch.compiler.disable
def _loop(module: torch.nn.Module, states: States, cu_seqlens: Tensor, options: Options) -> Tensor:
    """Computes attention [T, N, H] by `DroppedAttention`, or else in a loop over runs of equally long documents."""
    scale, dropout = options.scale, options.dropout
    drops = can_drop(dropout, states[0])
    keys = current_keys() if drops and options.keys is None else None
    queries = options.keys if keys is None else keys.of_queries(module)
    if drops and options.bias_of is None and torch.backends.cuda.flash_sdp_enabled():
        wide = (widen(x) for x in states)
        return DroppedAttention.apply(*wide, cu_seqlens, options._replace(keys=queries)).to(states[0].dtype)
    parts = []
    for start, stop, length in runs(cu_seqlens):
        q, k, v = (documents(x, start, stop, length) for x in states)
        mask = options.mask(q, k)
        if queries is None:
            out = functional.scaled_dot_product_attention(q, k, v, mask, dropout, scale=scale)
        else:
            out = plain_attention(q, k, v, mask, scale, dropout, queries[start:stop].view(-1, length))
        parts.append(out.transpose(1, 2).flatten(0, 1))
    return torch.cat(parts)


AttentionInterface.register(NAME, packed_attention)


_UNSUPPORTED = ("position_bias", "cache", "softcap")
"""Arguments of transformers' own attention that are not supported here."""


def padded_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **further: Any,
) -> tuple[Tensor, None]:
    """Computes attention over padded rows by transformers' `sdpa`, or on a CPU with the bits of `dropout_keys`.

    Maps queries [B, N, T, H], keys and values [B, N or fewer, T, H] to [B, T, N, H]; the mask is made
    causal if the encoder reads causally.
    """
    if (causal_rows := causal_of(module)) is not None:
        attention_mask, is_causal = causal_mask(causal_rows, attention_mask, query)
    keys = current_keys()
    plain = all(further.get(name) is None for name in _UNSUPPORTED) and key.shape[2] == query.shape[2]
    if keys is None or not plain or not can_drop(dropout, query) or not keys.fits(query):
        arguments = (query, key, value, attention_mask, dropout, scaling, is_causal)
        return sdpa_attention_forward(module, *arguments, **further)[0], None
    key, value = (one_per_query_head(x, query) for x in (key, value))
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if attention_mask is None and causal:
        attention_mask = torch.ones(query.shape[2], query.shape[2], dtype=torch.bool).tril()
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    queries = keys.of_queries(module).view(query.shape[0], query.shape[2])
    out = plain_attention(query, key, value, attention_mask, scale, dropout, queries)
    return out.transpose(1, 2).contiguous(), None


AttentionInterface.register("sdpa", padded_attention)
