"""The LightningModules.

`PretrainingRun`, `FinetuningRun` and `VisionLanguageModule` take the parts of a run and its global batches:

- `base`: the model, placed and compiled; `training`: the step that all objectives share. Read these first.
- `pretraining`, `finetuning`, `vision_language`: validation, and what follows the training.
- `samples`: guesses for masked tokens; `texts`: micro-batches as text.

`PretrainingModule` and `FinetuningModule` take keyword arguments and batches of a collator, for a plain
`lightning.Trainer`:

- `automatic`: what they share; `automatic_pretraining`, `automatic_finetuning`: the modules.
- `task_models`: the model of a task by name; `set_figures`: loss and metrics of an evaluated set.
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
