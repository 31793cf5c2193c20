"""From text, labelled rows and images to micro-batches.

The way of a sample: source -> tokenizer -> `store` -> sampler (global batch k) -> partition (ranks, micro-batches) ->
collator of the objective.

- `micro_batch`: the types of flat samples, micro-batches and shares. Read it first.
- `batches`: global batch k as a rank's micro-batches, and the loader of them.
- `module`: the base class of data modules; `evaluated`: with labelled validation and test sets.
- `handover`: batches from loader processes.
- `read`: files; `text`: documents for pretraining; `store`: token sequences on disk.
- `labelled`: rows of finetuning tasks; `vision`: conversations about images; `energon`: streams of megatron-energon.
- `demo`: data that is made here; `prepare_energon`: the command that writes an energon data set.

The data modules for a plain `lightning.Trainer` are in `runner.loaders`.
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
