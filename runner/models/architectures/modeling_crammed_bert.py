"""Crammed BERT (Geiping and Goldstein, 2022, arXiv 2212.14034): the encoder for one GPU and one day.

With LN a layer norm with weight and bias, and x = LN(token + s * sinusoid(position)), where s is learned,

    x = x + Wo softmax(q k / sqrt(H)) v,     q, k, v = Wqkv LN(x)
    x = x + Wo (gelu(gate) * value),         value, gate = Wi LN(x)

for each layer; then LN, and the table of tokens as decoder. No other part has a bias.
"""

import math

import torch
from torch import Tensor, nn
from transformers import initialization as init
from transformers.modeling_layers import GradientCheckpointingLayer

from .encoder_base import Body, EncoderConfig, FusedAttention, PublishedEncoder
from .encoder_heads import (
    ForMaskedLM,
    ForQuestionAnswering,
    ForSequenceClassification,
    ForTokenClassification,
)


class CrammedBertConfig(EncoderConfig):
    """Crammed BERT of 120 million parameters.

    Example:
        >>> CrammedBertConfig(num_hidden_layers=2).intermediate_size
        1536
    """

    model_type = "crammed_bert"
    vocab_size: int = 32768
    num_hidden_layers: int = 16
    intermediate_size: int = 1536
    max_position_embeddings: int = 128
    classifier_pooling: str = "mean"


class CrammedBertEmbeddings(nn.Module):
    """Tokens and scaled sinusoids."""

    def __init__(self, config: CrammedBertConfig) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(
            config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id
        )
        self.position_scale = nn.Parameter(torch.tensor([config.hidden_size**-0.5]))
        self.norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.drop = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, tokens: Tensor, positions: Tensor, _: Tensor | None) -> Tensor:
        """Embeddings [B, T, D] of tokens at positions [1 or B, T]."""
        waves = sinusoids(positions, tokens.shape[-1]).to(tokens.dtype)
        return self.drop(self.norm(tokens + self.position_scale * waves))


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Sines at even, cosines at odd features of positions [..]: [.., D]."""
    rates = torch.arange(0, width, 2, device=positions.device) * (-math.log(10000.0) / width)
    angles = positions[..., None] * rates.exp()
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)[..., :width]


class CrammedBertMLP(nn.Module):
    """A gated feed-forward layer."""

    def __init__(self, config: CrammedBertConfig) -> None:
        super().__init__()
        self.Wi = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
        self.Wo = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        value, gate = self.Wi(hidden).chunk(2, -1)
        return self.Wo(nn.functional.gelu(gate) * value)


class CrammedBertLayer(GradientCheckpointingLayer):
    """A layer with its norms before attention and feed-forward layer."""

    def __init__(self, config: CrammedBertConfig) -> None:
        super().__init__()
        self.attn_norm, self.mlp_norm = (
            nn.LayerNorm(config.hidden_size, config.layer_norm_eps) for _ in range(2)
        )
        self.attn, self.mlp = FusedAttention(config, bias=False), CrammedBertMLP(config)
        self.drop = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden: Tensor, mask: Tensor | None, **kwargs: object) -> Tensor:
        hidden = hidden + self.drop(self.attn(self.attn_norm(hidden), mask, **kwargs))
        return hidden + self.drop(self.mlp(self.mlp_norm(hidden)))


class CrammedBertPreTrainedModel(PublishedEncoder):
    """How weights are drawn: normal, of deviation `initializer_range`."""

    config_class = CrammedBertConfig

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, CrammedBertEmbeddings):
            init.constant_(module.position_scale, self.config.hidden_size**-0.5)


class CrammedBertModel(Body, CrammedBertPreTrainedModel):
    """The encoder."""

    def __init__(self, config: CrammedBertConfig) -> None:
        super().__init__(config)
        self.embeddings = CrammedBertEmbeddings(config)
        self.layers = nn.ModuleList([CrammedBertLayer(config) for _ in range(config.num_hidden_layers)])
        self.final_norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.post_init()


CrammedBertPreTrainedModel.body = CrammedBertModel


class CrammedBertForMaskedLM(ForMaskedLM, CrammedBertPreTrainedModel):
    """The encoder with its decoder alone."""

    decoder_bias = False


class CrammedBertForSequenceClassification(ForSequenceClassification, CrammedBertPreTrainedModel):
    """The encoder with a classifier of texts."""


class CrammedBertForTokenClassification(ForTokenClassification, CrammedBertPreTrainedModel):
    """The encoder with a classifier of tokens."""


class CrammedBertForQuestionAnswering(ForQuestionAnswering, CrammedBertPreTrainedModel):
    """The encoder that scores tokens as ends of an answer."""
