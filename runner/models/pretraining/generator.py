"""The generator of replaced token detection: a small masked language model that samples what it predicts.

Letters in shapes: P tokens of a micro-batch with padding, M targets, V vocabulary, H hidden.
"""

import copy
import json
from collections.abc import Mapping

import torch
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel

from tiryns.conf.values import suggest
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.packed.dropout_keys import DropoutKeys, bits
from tiryns.runner.models.pretraining.sparse_head import SparseMaskedLM, added_up, rows_at
from tiryns.runner.widening import widened

SAMPLING = 0x73616D706C656473
"""Separates the keys of samples from those of dropout."""

NOISE_AT_ONCE = 2**22
"""Random numbers made at a time: 32 MiB of words."""


class TokenGenerator(SparseMaskedLM):
    """Predicts the targets, and samples a token for each from softmax(logits / temperature); no gradient goes through it.

    The sample of a target is that of the largest logit with Gumbel noise, which is a hash of the document's key, the
    place in the document and the token of the vocabulary, so it does not depend on how a global batch is cut or laid out.
    """

    def __init__(self, pretrained: PreTrainedModel, temperature: float, never: Tensor) -> None:
        """`never` [v] marks tokens that are not sampled; nor is what the model has beyond these."""
        super().__init__(pretrained)
        self.temperature = temperature
        left_out = torch.ones(pretrained.config.get_text_config().vocab_size, dtype=torch.bool)
        left_out[: len(never)] = never
        self.register_buffer("left_out", left_out, persistent=False)
        self._keys = torch.empty(0, dtype=torch.int64)

    def forward(self, micro_batch: MicroBatch) -> dict[str, Tensor]:
        """The sum of the targets' `loss` in nats, and a `sampled` token [M] for each."""
        positions = micro_batch["target_positions"]
        self._keys = sampling_keys(micro_batch)
        chosen = rows_at(self.encode(micro_batch, positions), positions)
        losses, sampled = self.scored(chosen, micro_batch["targets"], None, positions)
        return {"loss": added_up(losses), "sampled": torch.cat(list(sampled))}

    def picked(self, logits: Tensor, targets: Tensor, positions: Tensor) -> Tensor:
        """A sample [M] by logits [M, V] of the targets at positions [M]."""
        left_out: Tensor = self.left_out  # type: ignore[assignment]
        rows = max(1, NOISE_AT_ONCE // logits.shape[-1])
        keys = self._keys[positions]
        found = [
            (widened(some) / self.temperature + gumbel(of, some.shape[-1]))
            .masked_fill_(left_out, -torch.inf)
            .argmax(-1)
            for some, of in zip(logits.split(rows), keys.split(rows), strict=True)
        ]
        return torch.cat(found)


def sampling_keys(micro_batch: MicroBatch) -> Tensor:
    """Keys [P] of the tokens, int64: those of their documents and places, or drawn where documents have none."""
    if "sample_keys" in micro_batch:
        return DropoutKeys(micro_batch, SAMPLING).tokens
    ids = micro_batch["input_ids"]
    return torch.randint(2**62, (ids.numel(),), device=ids.device)


def gumbel(keys: Tensor, count: int) -> Tensor:
    """Gumbel noise [M, count] in float32 under int64 keys [M], 32 bits for each: -log(-log(1 - u)), u in (0, 1).

    Small u, which make large noise, have all the precision of float32.
    """
    words = bits(keys, 2 * count).view(torch.int32).long() & 0xFFFFFFFF
    return words.float().add_(0.5).mul_(2.0**-32).neg_().log1p_().neg_().log_().neg_()


def generator_config(
    config: PretrainedConfig, size: float, depth: float, changes: Mapping[str, object]
) -> PretrainedConfig:
    """The config of a generator: `size` of the heads, each as wide as they are, and with them of the widths of hidden
    states and feed-forward layers; `depth` of the layers, the first ones; and `changes` of single fields.

    The width of embeddings stays where a config has one of its own, as ELECTRA's. Raises ValueError for an unknown field.
    """
    small = copy.deepcopy(config)
    for name in changes:
        if not hasattr(config, name):
            raise ValueError(
                f"objective.generator.{name}: {type(config).__name__} has no such field"
                + suggest(name, json.loads(config.to_json_string(False)))
            )
    heads, layers = config.num_attention_heads, config.num_hidden_layers
    kept = max(1, round(layers * depth))
    fewer = max(1, round(heads * size))
    fields: dict[str, object] = {
        "num_attention_heads": fewer,
        "hidden_size": config.hidden_size // heads * fewer,
        "num_hidden_layers": kept,
    }
    for name in ("intermediate_size", "hidden_dim", "num_key_value_heads"):
        if isinstance(value := getattr(config, name, None), int):
            fields[name] = max(1, round(value * fewer / heads))
    for name, value in vars(config).items():  # of each layer, such as its kind
        if isinstance(value, list) and len(value) == layers:
            fields[name] = value[:kept]
    small.update({**fields, **changes})
    return small
