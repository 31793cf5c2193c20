"""Objectives: collators that turn tokenised samples into a micro-batch with targets.

`base` says what a collator is and lays out the rows; one file per objective. Pretraining: `mlm`, `enhanced_mlm`,
`diffusion`.
"""

from importlib import import_module
from typing import Any

from iolaus.runner.objectives.base import COLLATORS, Collator, get_collator_cls

__all__ = ["Collator", "get_collator_cls", *(name for _, name in COLLATORS.values())]


def __getattr__(name: str) -> Any:
    """Imports a collator when it is first named."""
    for module, collator in COLLATORS.values():
        if collator == name:
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
