"""Fills a larger encoder with the weights of a smaller one of the same architecture, as ModernBERT-large from -base.

Layer i takes layer round(i * L_old / L_new), at most the last. In a dimension that grows from old to new, index j takes
index (j - offset) mod old: the old weights lie in the middle, at offset (new - old) // 2, and wrap around. In the hidden
dimension the offset is rounded down to the edge of a head. Queries, keys and values that share a matrix, and the halves
of a gated feed-forward layer, are tiled separately. Positions have offset 0. Nothing is rescaled.
"""

import re

import torch
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel

from tiryns.runner.optim.roles import parts

LAYER = re.compile(r"(?<=\.)(\d+)(?=\.)")

FUSED = re.compile(r"Wqkv|qkv|query_key_value|in_proj\b|c_attn")
"""Names of matrices that hold queries, keys and values."""

SIDES = ("hidden_size", "intermediate_size", "max_position_embeddings", "embedding_size")
"""Config fields with the dimensions of weights that may grow."""


@torch.no_grad()
def tile(model: PreTrainedModel, source: PreTrainedModel) -> None:
    """Fills a model with the weights of a smaller one; norms that the smaller one lacks keep their weights.

    Raises:
        ValueError: the models are of two architectures, the source is larger, or a weight cannot be mapped.
    """
    new, old = model.config, source.config
    _check_sizes(new, old)
    weights = dict(source.named_parameters(remove_duplicate=False))
    for name, (parameter, role, place) in parts(model).items():
        there = name
        if place.layer is not None:
            layer = round(place.layer * old.num_hidden_layers / new.num_hidden_layers)
            there = LAYER.sub(str(min(layer, old.num_hidden_layers - 1)), name, count=1)
        if there in weights:
            tensor: Tensor = weights[there]
            for axis, (before, after) in enumerate(zip(tensor.shape, parameter.shape, strict=True)):
                if before != after:
                    counts = (3,) if axis == 0 and FUSED.search(name) else (1, 2)
                    tensor = tensor.index_select(axis, _places(before, after, counts, name, new, old))
            parameter.copy_(tensor)
        elif role != "norm":
            raise ValueError(f"model.tiled_from: that model has no weight {there!r} for {name!r} here")


def _check_sizes(new: PretrainedConfig, old: PretrainedConfig) -> None:
    if new.model_type != old.model_type:
        raise ValueError(
            f"model.tiled_from: a {old.model_type!r} cannot fill a {new.model_type!r}; take the same type"
        )
    for name in (*SIDES, "num_hidden_layers"):
        if (getattr(new, name, None) or 0) < (getattr(old, name, None) or 0):
            raise ValueError(
                f"model.tiled_from: {name}={getattr(new, name)} is below the {getattr(old, name)} there"
            )
    heads, old_heads = (_head_size(config) for config in (new, old))
    if heads != old_heads:
        fitting = new.hidden_size // old_heads
        raise ValueError(
            f"model.tiled_from: attention heads are {old_heads} wide there and {heads} wide here; "
            f"model.num_attention_heads={fitting} makes them equal"
        )
    shares = any(
        getattr(config, "num_key_value_heads", None) not in (None, config.num_attention_heads)
        for config in (new, old)
    )
    if shares and new.hidden_size != old.hidden_size:
        raise ValueError(
            "model.tiled_from: heads that share keys (num_key_value_heads) cannot be tiled in width"
        )


def _head_size(config: PretrainedConfig) -> int:
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def _places(
    before: int, after: int, counts: tuple[int, ...], name: str, new: PretrainedConfig, old: PretrainedConfig
) -> Tensor:
    """Returns the old index of each new index in a dimension of any of `counts` equal parts; ValueError if none fits."""
    for count in counts:
        for field in SIDES:
            new_size, old_size = getattr(new, field, None), getattr(old, field, None)
            if new_size and old_size and (count * old_size, count * new_size) == (before, after):
                offset = (new_size - old_size) // 2
                if field == "hidden_size":
                    offset -= offset % _head_size(old)
                elif field == "max_position_embeddings":
                    offset = 0
                places = (torch.arange(new_size) - offset) % old_size
                return torch.cat([places + part * old_size for part in range(count)])
    raise ValueError(
        f"model.tiled_from: {name!r} has a side of {before} there and {after} here; only {', '.join(SIDES)} may grow"
    )
