"""The attention of a model: transformers 5 sets it publicly (`set_attn_implementation`), and tells it privately.

Whether an `Auto` class has a model for a config stands in its `_model_mapping` alone, in 5.18 to 5.24. `Auto` classes
that load a model with code of its own are noted in `_auto_class` by `register_for_auto_class`.
"""

from typing import Any


def attention_of(config: object) -> Any:
    """Returns the name of the attention that a model of this config computes; None if the model has its own.

    Example:
        >>> attention_of(BertConfig(attn_implementation="sdpa"))
        'sdpa'
    """
    return getattr(config, "_attn_implementation", None)


def takes_attention(model: Any) -> bool:
    """Whether a model computes any attention that is registered, rather than one of its own."""
    return bool(model._can_set_attn_implementation())


def auto_class_of(model: Any) -> str | None:
    """Returns the `Auto` class that loads a model whose code is exported with it; None for one of transformers' own."""
    auto: str | None = type(model)._auto_class
    return auto


def has_head(auto: Any, config: object) -> bool:
    """Returns whether an `Auto` class has a model for configs of this class."""
    return type(config) in auto._model_mapping
