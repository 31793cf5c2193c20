"""Temporary replacements of a model's encoder, so that its head computes alone or in another precision."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPoolingAndCrossAttentions

from tiryns.runner.patches.torch.modules import shallow_copy, share_parts


@contextmanager
def encoder_returning(pretrained: PreTrainedModel, *states: Tensor) -> Iterator[None]:
    """In the block, makes the encoder return `states`: hidden states [B, T, H] and, if given, pooled states [B, H]."""
    with _encoder_called(pretrained, lambda *_, **__: _Output(states)):
        yield


@contextmanager
def head_in_fp32(pretrained: PreTrainedModel) -> Iterator[None]:
    """In the block, keeps autocast for the encoder but runs the head without it. No effect if gradients are enabled.

    bf16 has 128 numbers between 1 and 2, so scores would tie, and their order would be random.
    """
    device, encoder = pretrained.device.type, pretrained.base_model
    uses_autocast = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    if torch.is_grad_enabled() or not uses_autocast or encoder is pretrained:
        yield
        return
    dtype = torch.get_autocast_dtype(device)

    def of_weights(value: Tensor) -> Tensor:
        return value.to(pretrained.dtype) if value.is_floating_point() else value

    def in_autocast(*args: object, **kwargs: object) -> object:
        with torch.autocast(device, dtype):
            return apply_to_collection(encoder(*args, **kwargs), Tensor, of_weights)

    with _encoder_called(pretrained, in_autocast), torch.autocast(device, enabled=False):
        yield


@contextmanager
def _encoder_called(pretrained: PreTrainedModel, call: Callable[..., object]) -> Iterator[None]:
    """Calls `call` instead of the model's encoder in the block."""
    prefix = pretrained.base_model_prefix
    encoder = getattr(pretrained, prefix)
    assert isinstance(encoder, nn.Module)
    setattr(pretrained, prefix, _StandIn(encoder, call))
    try:
        yield
    finally:
        setattr(pretrained, prefix, encoder)


class _StandIn(nn.Module):
    """Calls a function in place of an encoder; other attributes are the encoder's own."""

    def __init__(self, encoder: nn.Module, call: Callable[..., object]) -> None:
        super().__init__()
        self.__dict__["encoder"] = encoder  # not a submodule: its parameters keep their names
        self.__dict__["forward"] = call

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["encoder"], name)


class _Output(tuple[Tensor, ...]):
    """Hidden states, pooled states if given, and None for any other attribute."""

    @property
    def last_hidden_state(self) -> Tensor:
        return self[0]

    @property
    def pooler_output(self) -> Tensor | None:
        return self[1] if len(self) > 1 else None

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


def head_alone(pretrained: PreTrainedModel) -> PreTrainedModel:
    """Returns a model of the same modules and weights, whose encoder returns its input `inputs_embeds` [B, T, H].

    Call the copy with `input_ids=None`, and do not change it: a head replaced in one model stays in the other.

    Example:
        >>> import torch
        >>> from transformers import BertConfig, BertForMaskedLM
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 20}
        >>> model = BertForMaskedLM(BertConfig(num_hidden_layers=1, **sizes)).eval()
        >>> alone, hidden = head_alone(model), torch.randn(1, 3, 8)
        >>> torch.equal(alone(input_ids=None, inputs_embeds=hidden).logits, model.cls(hidden))
        True
    """
    prefix = pretrained.base_model_prefix
    alone = shallow_copy(pretrained)
    setattr(alone, prefix, _PassesOn(getattr(pretrained, prefix)))
    return alone


class _PassesOn(nn.Module):
    """An encoder that returns its input states. It shares the encoder's modules, as some heads read them."""

    def __init__(self, encoder: PreTrainedModel) -> None:
        super().__init__()
        share_parts(self, encoder)
        self.config = encoder.config

    def forward(
        self, *_: object, inputs_embeds: Tensor, **__: object
    ) -> BaseModelOutputWithPoolingAndCrossAttentions:
        return BaseModelOutputWithPoolingAndCrossAttentions(last_hidden_state=inputs_embeds)
