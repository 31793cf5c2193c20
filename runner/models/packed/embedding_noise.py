"""Noise on the embeddings of tokens in training (NEFTune, arXiv 2310.05914), by the keys of dropout."""

from functools import partial

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tiryns.runner.models.packed.dropout_keys import current_keys

_HALF = 1 << 15
"""Values of 16 random bits below 0."""


def add_embedding_noise(pretrained: PreTrainedModel, alpha: float) -> None:
    """Adds uniform noise between -r and r, r = alpha / sqrt(tokens of the sample * H), to each embedding of a token.

    Each is a function of (seed, step, sample, position, feature), as dropout is. There is none outside of a training
    step, nor on padding's account: r is of the sample's own tokens.
    """
    pretrained.get_input_embeddings().register_forward_hook(partial(_noisy, alpha))


@torch.compiler.disable
def _noisy(alpha: float, module: nn.Module, _: object, embedded: Tensor) -> Tensor:
    """Embeddings [..., H] of all tokens with the noise of the present keys, if there are any."""
    keys = current_keys()
    if keys is None or not module.training:
        return embedded
    bits = keys.of_elements(module, embedded.shape)
    assert bits is not None, "the embeddings are those of the micro-batch's tokens"
    noise = (bits.to(torch.float32) + 0.5) / _HALF
    radius = alpha * (keys.lengths * embedded.shape[-1]).clamp(min=1).rsqrt()
    return embedded + (noise * radius.view(*embedded.shape[:-1], 1)).to(embedded.dtype)
