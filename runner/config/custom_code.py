"""Loads configs, tokenizers, processors and models of transformers, which may bring code of their own.

It runs only where `trust_remote_code` allows it; transformers would ask on the terminal. A model whose code transformers
has as well is loaded with that.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

_allowed = False

own_architectures: dict[str, Callable[[], None]] = {}
"""What makes an architecture of this project known to transformers, by its `model_type`."""


def allow_custom_code(allowed: bool) -> None:
    """Sets whether models may run code of their own from now on."""
    global _allowed
    _allowed = allowed


def custom_code_allowed() -> bool:
    """Whether models may run code of their own."""
    return _allowed


def from_pretrained(loader: Any, name_or_path: str | Path, **options: Any) -> Any:
    """Loads a name or folder with `loader`, such as `AutoConfig`; raises CustomCodeRefused, or as transformers does."""
    _make_known(name_or_path)
    try:
        loaded = loader.from_pretrained(name_or_path, trust_remote_code=_allowed, **options)
    except ValueError as error:
        if not _allowed and "trust_remote_code" in str(error):
            raise CustomCodeRefused(
                f"{str(name_or_path)!r} brings code of its own (auto_map), which is not run: read it, and if you trust "
                "it, allow it with trust_remote_code=true on the command line"
            ) from error
        raise
    if not isinstance(getattr(loaded, "architectures", None), list | None):
        raise ValueError(f"'architectures' in the config of {str(name_or_path)!r} is no list of names")
    return loaded


def _make_known(name_or_path: str | Path) -> None:
    """Makes the architecture of a model known to transformers where it is one of this project's."""
    from transformers import PretrainedConfig

    # what is missing or broken is told by the loading
    with suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
        known, _ = PretrainedConfig.get_config_dict(name_or_path)
        if make_known := own_architectures.get(str(known.get("model_type"))):
            make_known()


class CustomCodeRefused(ValueError):
    """A model needs code that its author has put beside it, which is not allowed to run."""
