"""GPT-BERT (Charpentier and Samuel, 2024, arXiv 2410.24159): LTG-BERT with gated attention and weighted residuals.

With N a layer norm without weights, x[0] = N(token), and h = x[0], each layer makes two more outputs

    x[n + 1] = h + Wo N(gelu(gate) * softmax(s) v),     q, k = Wqk N(h),  v, gate = Wvg N(h)
    x[n + 2] = h + Wo N(value * gelu(gate)),            value, gate = Wi N(h)

after each of which h is the sum of all outputs so far with learned weights (DenseFormer, arXiv 2402.02622), at first that
of the last alone. The score of i and j is (q_i k_j + q_i K[i - j] + k_j Q[i - j]) / sqrt(3 H), where Q and K are Wqk of
embeddings, one for each bucket of distances (DeBERTa, arXiv 2006.03654): distances up to a half of
`position_bucket_size` have a bucket each, further ones share them by their logarithm.
"""

import math
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn
from transformers import initialization as init
from transformers.modeling_layers import GradientCheckpointingLayer

from .encoder_base import Body, EncoderConfig, PublishedEncoder, SelfAttention, attend, heads_of
from .encoder_heads import (
    ForMaskedLM,
    ForQuestionAnswering,
    ForSequenceClassification,
    ForTokenClassification,
)


class GptBertConfig(EncoderConfig):
    """GPT-BERT base of 119 million parameters.

    Example:
        >>> GptBertConfig(num_hidden_layers=2).position_bucket_size
        32
    """

    model_type = "gpt_bert"
    vocab_size: int = 16384
    intermediate_size: int = 2560
    layer_norm_eps: float = 1e-5
    position_bucket_size: int = 32
    """Buckets of distances to one side, in which distances of up to `max_position_embeddings` tokens differ."""


def plain_norm(width: int, config: EncoderConfig) -> nn.LayerNorm:
    """A layer norm without weights."""
    return nn.LayerNorm(width, config.layer_norm_eps, elementwise_affine=False)


class GptBertEmbeddings(nn.Module):
    """Tokens, and the buckets of distances."""

    def __init__(self, config: GptBertConfig) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.norm = plain_norm(config.hidden_size, config)
        self.drop = nn.Dropout(config.hidden_dropout_prob)
        self.bucket_embeddings = nn.Embedding(2 * config.position_bucket_size - 1, config.hidden_size)
        self.bucket_norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, tokens: Tensor, *_: object) -> Tensor:
        """Embeddings [B, T, D] of tokens."""
        return self.drop(self.norm(tokens))

    def buckets(self) -> Tensor:
        """Returns the embeddings [P, D] of the buckets."""
        return self.bucket_norm(self.bucket_embeddings.weight)


def buckets_of(length: int, config: GptBertConfig, device: torch.device) -> Tensor:
    """Returns the bucket of the distance i - j of each two of T tokens, from 0 for far behind: [T, T]."""
    half = config.position_bucket_size // 2
    longest = max(config.max_position_embeddings - 1, half + 1)
    places = torch.arange(length, device=device)
    distances = places[:, None] - places
    far = distances.abs().clamp(half, longest)
    steps = torch.log(far / half) / math.log(longest / half) * (half - 1)
    buckets = steps.ceil().long().clamp(max=half - 1) + half
    buckets = torch.where(distances.abs() <= half, distances, buckets * distances.sign())
    return buckets + config.position_bucket_size - 1


class GptBertAttention(SelfAttention):
    """Attention with scores of distances, whose result is gated."""

    config: GptBertConfig

    def __init__(self, config: GptBertConfig) -> None:
        super().__init__(config)
        width = config.hidden_size
        self.norm, self.out_norm = plain_norm(width, config), plain_norm(width, config)
        self.Wqk, self.Wvg = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.Wo = nn.Linear(width, width)
        self.scaling = (3 * width // config.num_attention_heads) ** -0.5
        self.drop = nn.Dropout(config.attention_probs_dropout_prob)
        self.bucket_drop = nn.Dropout(config.attention_probs_dropout_prob)
        self.bucket_drop.shared_by_rows = True  # type: ignore[assignment]  # by all shares of a batch

    def forward(self, hidden: Tensor, mask: Tensor | None, buckets: Tensor, **kwargs: object) -> Tensor:
        """Hidden states [B, T, D] and embeddings of buckets [P, D] to as many hidden states."""
        hidden, num_heads = self.norm(hidden), self.config.num_attention_heads
        query, key = (heads_of(part, num_heads) for part in self.Wqk(hidden).chunk(2, -1))
        value, gate = self.Wvg(hidden).chunk(2, -1)
        sides = self.Wqk(self.bucket_drop(buckets)[None]).chunk(2, -1)
        scores = partial(self.position_scores, *(heads_of(side, num_heads) for side in sides))
        out = attend(self, query, key, heads_of(value, num_heads), mask, self.scaling, scores, **kwargs)
        return self.drop(self.Wo(self.out_norm(out * nn.functional.gelu(gate))))

    def position_scores(self, of_query: Tensor, of_key: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Returns the scores [B, N, T, T] by distance, from those of buckets [1, N, P, H] as queries and as keys."""
        places = buckets_of(query.shape[2], self.config, query.device).expand(*query.shape[:2], -1, -1)
        by_query = (query @ of_key.transpose(-1, -2)).gather(-1, places)
        by_key = (key @ of_query.transpose(-1, -2)).gather(-1, places.transpose(-1, -2))
        return (by_query + by_key.transpose(-1, -2)) * self.scaling


class GptBertMLP(nn.Module):
    """A gated feed-forward layer with a norm before each matrix."""

    def __init__(self, config: GptBertConfig) -> None:
        super().__init__()
        self.norm, self.out_norm = (
            plain_norm(width, config) for width in (config.hidden_size, config.intermediate_size)
        )
        self.Wi = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
        self.Wo = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.drop = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden: Tensor) -> Tensor:
        value, gate = self.Wi(self.norm(hidden)).chunk(2, -1)
        return self.drop(self.Wo(self.out_norm(value * nn.functional.gelu(gate, approximate="tanh"))))


class GptBertLayer(GradientCheckpointingLayer):
    """A layer that reads the outputs of all before it."""

    def __init__(self, config: GptBertConfig, index: int) -> None:
        super().__init__()
        self.attn, self.mlp = GptBertAttention(config), GptBertMLP(config)
        self.after_attn, self.after_mlp = (
            nn.Parameter(torch.eye(count)[-1]) for count in (2 * index + 2, 2 * index + 3)
        )

    def forward(
        self, hidden: Tensor, outputs: list[Tensor], mask: Tensor | None, buckets: Tensor, **kwargs: object
    ) -> tuple[Tensor, list[Tensor]]:
        """Hidden states [B, T, D] and all outputs so far, to those behind the layer."""
        outputs = [*outputs, hidden + self.attn(hidden, mask, buckets, **kwargs)]
        hidden = weighted_sum(self.after_attn, outputs)
        outputs = [*outputs, hidden + self.mlp(hidden)]
        return weighted_sum(self.after_mlp, outputs), outputs


def weighted_sum(weights: Tensor, outputs: list[Tensor]) -> Tensor:
    """Returns the sum of outputs [B, T, D] with a weight each."""
    total = weights[0] * outputs[0]
    for weight, output in zip(weights[1:], outputs[1:], strict=True):
        total = torch.addcmul(total, weight, output)
    return total


class GptBertPreTrainedModel(PublishedEncoder):
    """How weights are drawn: normal, of deviation `initializer_range`; each layer reads the output before it alone."""

    config_class = GptBertConfig

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, GptBertLayer):
            for weights in (module.after_attn, module.after_mlp):
                init.copy_(weights, torch.eye(len(weights))[-1])


class GptBertModel(Body, GptBertPreTrainedModel):
    """The encoder."""

    embeddings: GptBertEmbeddings

    def __init__(self, config: GptBertConfig) -> None:
        super().__init__(config)
        self.embeddings = GptBertEmbeddings(config)
        self.layers = nn.ModuleList([GptBertLayer(config, i) for i in range(config.num_hidden_layers)])
        self.final_norm = nn.Identity()
        self.post_init()

    def states(self, hidden: Tensor, mask: Tensor | None, **kwargs: object) -> Iterator[Tensor]:
        """Yields the hidden states behind each layer."""
        outputs, buckets = [hidden], self.embeddings.buckets()
        for layer in self.layers:
            hidden, outputs = layer(hidden, outputs, mask, buckets, **kwargs)
            yield hidden


GptBertPreTrainedModel.body = GptBertModel


class GptBertHead(nn.Module):
    """What stands before the decoder."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.norm, self.out_norm = (plain_norm(config.hidden_size, config) for _ in range(2))
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.drop = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.drop(self.out_norm(nn.functional.gelu(self.dense(self.norm(hidden)))))


class GptBertForMaskedLM(ForMaskedLM, GptBertPreTrainedModel):
    """The encoder with its decoder."""

    transform = GptBertHead


class GptBertForSequenceClassification(ForSequenceClassification, GptBertPreTrainedModel):
    """The encoder with a classifier of texts."""


class GptBertForTokenClassification(ForTokenClassification, GptBertPreTrainedModel):
    """The encoder with a classifier of tokens."""


class GptBertForQuestionAnswering(ForQuestionAnswering, GptBertPreTrainedModel):
    """The encoder that scores tokens as ends of an answer."""
