"""The LightningModules: one training step that all objectives share, and modules for a plain `lightning.Trainer`.

`PretrainingRun`, `FinetuningRun` and `VisionLanguageModule` take the parts of a run, made as the config says, and its
global batches; `PretrainingModule` and `FinetuningModule` take keyword arguments and batches of a collator.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "FinetuningModule": "automatic_finetuning",
    "FinetuningRun": "finetuning",
    "PretrainingModule": "automatic_pretraining",
    "PretrainingRun": "pretraining",
    "VisionLanguageModule": "vision_language",
}

__all__ = ["FinetuningModule", "FinetuningRun", "PretrainingModule", "PretrainingRun", "VisionLanguageModule"]


def __getattr__(name: str) -> Any:
    """Imports a module when it is first named."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
