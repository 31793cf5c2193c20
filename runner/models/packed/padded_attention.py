"""Attention over padded rows with keyed dropout on a CPU; without keys it is transformers' own `sdpa`.

What the encoder reads causally (`runner.models.packed.causal`) is added to the mask.

Letters in shapes: B rows, T tokens, N heads, H size of a head.
"""

from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from tiryns.runner.models.packed.causal import causal_mask, causal_of
from tiryns.runner.models.packed.documents import one_per_query_head
from tiryns.runner.models.packed.dropout import can_drop, plain_attention
from tiryns.runner.models.packed.dropout_keys import current_keys

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
    """Queries [B, N, T, H], keys and values [B, N or fewer, T, H] to [B, T, N, H], for any model of transformers."""
    if (chosen := causal_of(module)) is not None:
        attention_mask, is_causal = causal_mask(chosen, attention_mask, query)
    keys = current_keys()
    plain = all(further.get(name) is None for name in _UNSUPPORTED) and key.shape[2] == query.shape[2]
    if keys is None or not plain or not can_drop(dropout, query) or not keys.fits(query):
        given = (query, key, value, attention_mask, dropout, scaling, is_causal)
        return sdpa_attention_forward(module, *given, **further)[0], None
    key, value = (one_per_query_head(x, query) for x in (key, value))
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if attention_mask is None and causal:
        attention_mask = torch.ones(query.shape[2], query.shape[2], dtype=torch.bool).tril()
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    queries = keys.of_queries(module).view(query.shape[0], query.shape[2])
    out = plain_attention(query, key, value, attention_mask, scale, dropout, queries)
    return out.transpose(1, 2).contiguous(), None


AttentionInterface.register("sdpa", padded_attention)
