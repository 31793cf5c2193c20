"""The attention of a model: transformers 5 has a public setter (`set_attn_implementation`), but no public getter.

In 5.18 to 5.24, only `_model_mapping` of an `Auto` class says which configs have a model. For a model with code of its
own, `register_for_auto_class` records in `_auto_class` which `Auto` class loads it.
"""

from typing import Any


def attention_of(config: object) -> Any:
    """Returns the name of the attention that a model of this config computes; None if the model has its own.

    Example:
        >>> from transformers import BertConfig
        >>> attention_of(BertConfig(attn_implementation="sdpa"))
        'sdpa'
    """
    return getattr(config, "_attn_implementation", None)


def takes_attention(model: Any) -> bool:
    """Whether a model can use registered attentions; False if it has only an attention of its own."""
    return bool(model._can_set_attn_implementation())


def auto_class_of(model: Any) -> str | None:
    """Returns the `Auto` class that loads a model whose code is exported with it; None for one of transformers' own."""
    auto: str | None = type(model)._auto_class
    return auto


def has_head(auto: Any, config: object) -> bool:
    """Returns whether an `Auto` class has a model for configs of this class."""
    return type(config) in auto._model_mapping
