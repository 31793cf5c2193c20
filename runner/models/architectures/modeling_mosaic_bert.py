"""MosaicBERT (Portes et al., 2023, arXiv 2312.17482): BERT with ALiBi and gated feed-forward layers.

With LN a layer norm and x = LN(token + token type), without embeddings of positions, each layer is

    x = LN(x + Wo softmax(q k / sqrt(H) - slope |i - j|) v),   q, k, v = Wqkv x
    x = LN(x + Wo (gelu(gate) * value)),                       gate, value = Wi x

with a slope for each head, biases but in Wi, and BERT's head for masked language models.
"""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn
from transformers.modeling_layers import GradientCheckpointingLayer

from .encoder_base import Body, EncoderConfig, FusedAttention, PublishedEncoder
from .encoder_heads import (
    ForMaskedLM,
    ForQuestionAnswering,
    ForSequenceClassification,
    ForTokenClassification,
)


class MosaicBertConfig(EncoderConfig):
    """MosaicBERT-base of 137 million parameters.

    Example:
        >>> MosaicBertConfig(num_hidden_layers=2).vocab_size
        30528
    """

    model_type = "mosaic_bert"
    vocab_size: int = 30528
    type_vocab_size: int = 2


class MosaicBertEmbeddings(nn.Module):
    """Tokens and their types."""

    def __init__(self, config: MosaicBertConfig) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(
            config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id
        )
        self.type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.drop = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, tokens: Tensor, _: Tensor, types: Tensor | None) -> Tensor:
        """Embeddings [B, T, D] of tokens of types [B, T], by default 0."""
        type_embeddings = self.type_embeddings.weight[0] if types is None else self.type_embeddings(types)
        return self.drop(self.norm(tokens + type_embeddings))


def slopes(num_heads: int, device: torch.device) -> Tensor:
    """Returns the slope of each head [N]: 2^(-8 i / n) for i from 1 to n = N; n being the power of two at or below N,
    and those of 2 n with odd i follow.
    """
    power = 1 << num_heads.bit_length() - 1
    whole = torch.arange(1, power + 1, device=device)
    between = torch.arange(num_heads - power, device=device) + 0.5
    return torch.exp2(-8 / power * torch.cat((whole, between)))


def alibi(slopes: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """Minus slope [N] times distance for T queries and keys [B, N, T, H]: [1, N, T, T]."""
    places = torch.arange(query.shape[2], device=query.device)
    return (-slopes[:, None, None] * (places - places[:, None]).abs()).to(query.dtype)[None]


class MosaicBertMLP(nn.Module):
    """A gated feed-forward layer."""

    def __init__(self, config: MosaicBertConfig) -> None:
        super().__init__()
        self.Wi = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
        self.drop = nn.Dropout(config.hidden_dropout_prob)
        self.Wo = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, hidden: Tensor) -> Tensor:
        gate, value = self.Wi(hidden).chunk(2, -1)
        return self.Wo(self.drop(nn.functional.gelu(gate) * value))


class MosaicBertLayer(GradientCheckpointingLayer):
    """A layer with its norms behind attention and feed-forward layer."""

    def __init__(self, config: MosaicBertConfig) -> None:
        super().__init__()
        self.attn, self.mlp = FusedAttention(config, bias=True), MosaicBertMLP(config)
        self.attn_norm, self.mlp_norm = (
            nn.LayerNorm(config.hidden_size, config.layer_norm_eps) for _ in range(2)
        )
        self.drop = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden: Tensor, mask: Tensor | None, **kwargs: object) -> Tensor:
        """Hidden states [B, T, D] to as many."""
        hidden = self.attn_norm(hidden + self.drop(self.attn(hidden, mask, **kwargs)))
        return self.mlp_norm(hidden + self.mlp(hidden))


class MosaicBertPreTrainedModel(PublishedEncoder):
    """How weights are drawn: normal, of deviation `initializer_range`."""

    config_class = MosaicBertConfig


class MosaicBertModel(Body, MosaicBertPreTrainedModel):
    """The encoder."""

    def __init__(self, config: MosaicBertConfig) -> None:
        super().__init__(config)
        self.embeddings = MosaicBertEmbeddings(config)
        self.layers = nn.ModuleList([MosaicBertLayer(config) for _ in range(config.num_hidden_layers)])
        self.final_norm = nn.Identity()
        self.post_init()

    def states(self, hidden: Tensor, mask: Tensor | None, **kwargs: object) -> Iterator[Tensor]:
        """Returns the hidden states behind each layer."""
        scores = partial(alibi, slopes(self.config.num_attention_heads, hidden.device))
        return super().states(hidden, mask, position_scores=scores, **kwargs)


MosaicBertPreTrainedModel.body = MosaicBertModel


class MosaicBertHead(nn.Module):
    """What BERT has before its decoder."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.norm(nn.functional.gelu(self.dense(hidden)))


class MosaicBertForMaskedLM(ForMaskedLM, MosaicBertPreTrainedModel):
    """The encoder with BERT's head."""

    transform = MosaicBertHead


class MosaicBertForSequenceClassification(ForSequenceClassification, MosaicBertPreTrainedModel):
    """The encoder with a classifier of texts."""


class MosaicBertForTokenClassification(ForTokenClassification, MosaicBertPreTrainedModel):
    """The encoder with a classifier of tokens."""


class MosaicBertForQuestionAnswering(ForQuestionAnswering, MosaicBertPreTrainedModel):
    """The encoder that scores tokens as ends of an answer."""
