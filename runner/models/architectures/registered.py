"""Makes the architectures of this folder known to transformers, in this process and in what it exports."""

from typing import Any

import transformers
from transformers import AutoConfig, PretrainedConfig
from transformers.models.auto import modeling_auto

from tiryns.runner.models.architectures import modeling_crammed_bert, modeling_gpt_bert, modeling_mosaic_bert
from tiryns.runner.models.architectures.encoder_base import HEADS

ARCHITECTURES: dict[str, type[PretrainedConfig]] = {}
"""The config class of each architecture, by its `model_type`."""

_FILES = {
    "CrammedBert": modeling_crammed_bert,
    "GptBert": modeling_gpt_bert,
    "MosaicBert": modeling_mosaic_bert,
}

for _name, _module in _FILES.items():
    _config = getattr(_module, f"{_name}Config")
    AutoConfig.register(_config.model_type, _config)
    _config.register_for_auto_class()
    for _auto, _ending in HEADS.items():
        _kind = getattr(_module, _name + _ending)
        getattr(modeling_auto, _auto).register(_config, _kind)
        _kind.register_for_auto_class(_auto)
    ARCHITECTURES[_config.model_type] = _config


def class_named(name: str) -> Any:
    """A class of transformers, or of this folder; raises ValueError for another name."""
    if not has_class(name):
        raise ValueError(
            f"{name} is no class of transformers: load the model with the class itself, {name}.from_pretrained"
        )
    return getattr(_module_of(name), name)


def has_class(name: str) -> bool:
    """Whether transformers or this folder has a class of this name."""
    return hasattr(_module_of(name), name)


def _module_of(name: str) -> Any:
    return next((file for start, file in _FILES.items() if name.startswith(start)), transformers)
