"""From text to micro-batches.

Source -> tokeniser -> `store` (memory-mapped) -> sampler (global batch k) -> `partition` (ranks, micro-batches)
-> objective (targets and layout). `batches` joins the last three in the loader's workers; `module` holds what
all data modules share.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "EnergonData": "energon_run",
    "EnergonMultiModalDataModule": "energon",
    "FinetuningDataModule": "finetuning",
    "ImageTextDataModule": "image_text",
    "PretrainingDataModule": "pretraining",
}

__all__ = [
    "EnergonData",
    "EnergonMultiModalDataModule",
    "FinetuningDataModule",
    "ImageTextDataModule",
    "PretrainingDataModule",
]


def __getattr__(name: str) -> Any:
    """Imports a data module when it is first named, so that the numpy parts stay quick to import."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
