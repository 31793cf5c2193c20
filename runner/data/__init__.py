"""From text to micro-batches.

Source -> tokeniser -> `store` (memory-mapped) -> sampler (global batch k) -> `partition` (ranks, micro-batches)
-> objective (targets and layout). `batches` joins the last three in the loader's workers; `module` holds what
all data modules share. `PretrainingDataModule` and `FinetuningDataModule` serve a plain `lightning.Trainer` from the same
parts: see `runner.loaders`.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "EnergonData": ".energon.run",
    "EnergonMultiModalDataModule": ".energon.module",
    "FinetuningData": ".labelled.finetuning",
    "FinetuningDataModule": "iolaus.runner.loaders.finetuning",
    "ImageTextDataModule": ".vision.image_text",
    "PretrainingData": ".text.pretraining",
    "PretrainingDataModule": "iolaus.runner.loaders.pretraining",
}

__all__ = [
    "EnergonData",
    "EnergonMultiModalDataModule",
    "FinetuningData",
    "FinetuningDataModule",
    "ImageTextDataModule",
    "PretrainingData",
    "PretrainingDataModule",
]


def __getattr__(name: str) -> Any:
    """Imports a data module when it is first named, so that the numpy parts stay quick to import."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)
