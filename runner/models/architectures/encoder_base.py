"""Parts that the published encoders of this folder share: their config, attention, and the pass over rows.

An exported model has a copy of this file beside that of its architecture; they import torch and transformers alone.
Letters in shapes: B rows, T tokens, D width, N heads, H size of a head.
"""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_outputs import BaseModelOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

HEADS = {
    "AutoModel": "Model",
    "AutoModelForMaskedLM": "ForMaskedLM",
    "AutoModelForSequenceClassification": "ForSequenceClassification",
    "AutoModelForTokenClassification": "ForTokenClassification",
    "AutoModelForQuestionAnswering": "ForQuestionAnswering",
}
"""How the class of each Auto class ends; it begins with the name of the architecture."""


class EncoderConfig(PretrainedConfig):
    """Sizes that all of them have; `intermediate_size` is the width behind the gate of the feed-forward layer."""

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    max_position_embeddings: int = 512
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    classifier_pooling: str = "cls"
    """What a text is classified by: its first token (`cls`), or the mean of all (`mean`)."""
    pad_token_id: int | None = 0
    bos_token_id: int | None = None
    eos_token_id: int | None = None
    cls_token_id: int | None = None
    sep_token_id: int | None = None
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs: object) -> None:
        """Names the classes of the architecture's file, for whoever opens an exported model."""
        super().__post_init__(**kwargs)
        if self.classifier_pooling not in ("cls", "mean"):
            raise ValueError(f"classifier_pooling={self.classifier_pooling!r} must be 'cls' or 'mean'")
        if not getattr(self, "auto_map", None):
            name = f"{type(self).__module__.rpartition('.')[2]}.{type(self).__name__}"
            classes = {auto: name.removesuffix("Config") + ending for auto, ending in HEADS.items()}
            self.auto_map = {"AutoConfig": name, **classes}


class SelfAttention(nn.Module):
    """The base class of attention in both directions."""

    is_causal = False

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config


def attend(
    module: SelfAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scaling: float,
    position_scores: Callable[[Tensor, Tensor], Tensor] | None = None,
    **kwargs: object,
) -> Tensor:
    """Attention [B, N, T, H] by the implementation that the config names, to [B, T, N * H].

    `position_scores` maps queries and keys of consecutive tokens to what is added to their scores, [B or 1, N, T, T]. An
    implementation for packed documents is given it, to call it for each document.
    """
    implementation = module.config._attn_implementation
    attention = ALL_ATTENTION_FUNCTIONS.get_interface(implementation, eager_attention_forward)
    is_packed = implementation not in ("eager", "sdpa") and kwargs.get("cu_seq_lens_q") is not None
    if position_scores is not None and is_packed:
        kwargs["position_scores"] = position_scores
    elif position_scores is not None:
        bias = position_scores(query, key)
        if mask is not None and mask.dtype == torch.bool:
            mask = bias.masked_fill(~mask, torch.finfo(bias.dtype).min)
        else:
            mask = bias if mask is None else bias + mask
    dropout = module.config.attention_probs_dropout_prob if module.training else 0.0
    out, _ = attention(module, query, key, value, mask, scaling=scaling, dropout=dropout, **kwargs)
    return out.flatten(2)


def eager_attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **_: object,
) -> tuple[Tensor, Tensor]:
    """Attention [B, N, T, H] to [B, T, N, H], and its weights."""
    scores = query @ key.transpose(-1, -2) * scaling
    exact = torch.promote_types(scores.dtype, torch.float32)
    weights = torch.softmax(scores if mask is None else scores + mask, -1, dtype=exact)
    weights = nn.functional.dropout(weights.to(query.dtype), dropout, module.training)
    return (weights @ value).transpose(1, 2).contiguous(), weights


def heads_of(states: Tensor, num_heads: int) -> Tensor:
    """[B, T, D] as [B, N, T, H]."""
    return states.unflatten(-1, (num_heads, -1)).transpose(1, 2)


class FusedAttention(SelfAttention):
    """Attention whose queries, keys and values come of one matrix."""

    def __init__(self, config: EncoderConfig, bias: bool) -> None:
        super().__init__(config)
        self.Wqkv = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=bias)
        self.Wo = nn.Linear(config.hidden_size, config.hidden_size, bias=bias)

    def forward(self, hidden: Tensor, mask: Tensor | None, **kwargs: Any) -> Tensor:
        """Hidden states [B, T, D] to as many."""
        parts = self.Wqkv(hidden).chunk(3, -1)
        query, key, value = (heads_of(part, self.config.num_attention_heads) for part in parts)
        return self.Wo(attend(self, query, key, value, mask, query.shape[-1] ** -0.5, **kwargs))


class PublishedEncoder(PreTrainedModel):
    """The base class of encoders, and of encoders with heads."""

    base_model: Any
    body: ClassVar[type[PreTrainedModel]]
    base_model_prefix = "model"
    _input_embed_layer = "tok_embeddings"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_attention_backend = True


class Body(PublishedEncoder):
    """An encoder: `embeddings`, a list of `layers`, and `final_norm`, the identity where there is none."""

    embeddings: nn.Module
    layers: nn.ModuleList
    final_norm: nn.Module

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        output_hidden_states: bool | None = None,
        **kwargs: object,
    ) -> BaseModelOutput:
        """Token ids [B, T], or their embeddings [B, T, D], to hidden states [B, T, D]; positions begin at 0."""
        if inputs_embeds is None:
            inputs_embeds = self.get_input_embeddings()(input_ids)
        if position_ids is None:
            position_ids = torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device)[None]
        hidden = self.embeddings(inputs_embeds, position_ids, token_type_ids)
        mask = create_bidirectional_mask(self.config, hidden, attention_mask)
        keeps = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        last, hidden_states = hidden, [hidden]
        for last in self.states(hidden, mask, **kwargs):
            hidden_states += [last] if keeps else []
        last = self.final_norm(last)
        return BaseModelOutput(last, (*hidden_states[:-1], last) if keeps else None)

    def states(self, hidden: Tensor, mask: Tensor | None, **kwargs: object) -> Iterator[Tensor]:
        """Yields the hidden states behind each layer."""
        for layer in self.layers:
            hidden = layer(hidden, mask, **kwargs)
            yield hidden
