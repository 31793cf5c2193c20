"""The architectures of this folder by name; only a run that uses one of them registers them with transformers."""

from functools import cache
from importlib import import_module
from typing import Any

import transformers
from transformers import AutoConfig
from transformers.models.auto import modeling_auto

from tiryns.runner.config.loading import own_architectures

ARCHITECTURES = {"crammed_bert": "CrammedBert", "gpt_bert": "GptBert", "mosaic_bert": "MosaicBert"}
"""How the classes of each architecture begin, by its `model_type`."""


@cache
def register() -> None:
    """Makes the architectures known to transformers, in this process and in what it exports."""
    from tiryns.runner.models.architectures.encoder_base import HEADS

    for model_type, start in ARCHITECTURES.items():
        config = class_named(f"{start}Config")
        AutoConfig.register(model_type, config)
        config.register_for_auto_class()
        for auto, ending in HEADS.items():
            kind = class_named(start + ending)
            getattr(modeling_auto, auto).register(config, kind)
            kind.register_for_auto_class(auto)


own_architectures.update(dict.fromkeys(ARCHITECTURES, register))


def class_named(name: str) -> Any:
    """Returns a class of transformers, or of this folder; raises ValueError for another name."""
    if not has_class(name):
        raise ValueError(
            f"{name} is no class of transformers: load the model with the class itself, {name}.from_pretrained"
        )
    return getattr(_module_of(name), name)


def has_class(name: str) -> bool:
    """Whether transformers or this folder has a class of this name."""
    return hasattr(_module_of(name), name)


def _module_of(name: str) -> Any:
    for model_type, start in ARCHITECTURES.items():
        if name.startswith(start):
            return import_module(f"{__package__}.modeling_{model_type}")
    return transformers
