"""Configs, tokenizers, processors and models of transformers, which bring code of their own if their authors like.

Left to itself transformers asks on the terminal whether to run it. Here it runs where `trust_remote_code` allows it, and
is refused elsewhere; a model whose code transformers has as well is loaded with that.
"""

from pathlib import Path
from typing import Any

_allowed = False


def allow_custom_code(allowed: bool) -> None:
    """Says whether models may run code of their own from here on."""
    global _allowed
    _allowed = allowed


def custom_code_allowed() -> bool:
    """Whether models may run code of their own."""
    return _allowed


def from_pretrained(loader: Any, name_or_path: str | Path, **options: Any) -> Any:
    """What `loader`, such as `AutoConfig`, finds under a name.

    Raises:
        ValueError: it needs code that its author has put beside it, which is not allowed.
        Exception: what transformers raises where there is nothing, or nothing that fits.
    """
    try:
        return loader.from_pretrained(name_or_path, trust_remote_code=_allowed, **options)
    except ValueError as error:
        if not _allowed and "trust_remote_code" in str(error):
            raise CustomCodeRefused(
                f"{str(name_or_path)!r} brings code of its own (auto_map), which is not run: read it, and if you trust "
                "it, allow it with trust_remote_code=true on the command line"
            ) from error
        raise


class CustomCodeRefused(ValueError):
    """What a name stands for cannot be loaded without running code of its author."""
