"""Objectives: collators that turn tokenised samples into a batch with targets.

- `base`: `Collator` and `FlatCollator`, the base classes, and `get_collator_cls`.
- `mlm`, `enhanced_mlm`, `diffusion`: pretraining.
- `classification`, `token_classification`, `question_answering`: finetuning; `finetuning` has what they share.
- `vision_language`: conversations about images.
- `layout`: places of tokens in padded and packed rows, and the hashes of samples.
- `rows`: lists of samples as padded rows, and rows as flat samples; `row_batch`: flat samples as the batch of a
  `DataLoader`.

Read `base`, then `mlm`.
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
