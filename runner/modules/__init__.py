"""The LightningModules.

`PretrainingRun`, `FinetuningRun` and `VisionLanguageModule` take the parts of a run and its global batches:

- `base`: the model, placed and compiled; `training`: the step that all objectives share. Read these first.
- `source_losses`: the training loss of each source of a mixture.
- `replay`: a step that is computed twice, to see whether the hardware computes right.
- `pretraining`, `finetuning`, `vision_language`: validation, and the files written after the training.
- `samples`: guesses for masked tokens; `texts`: micro-batches as text.

`PretrainingModule` and `FinetuningModule` take keyword arguments and batches of a collator, for a plain Trainer:

- `automatic`: their base class; `automatic_pretraining`, `automatic_finetuning`: the modules.
- `set_figures`: loss and metrics of an evaluated set.
"""

from typing import TYPE_CHECKING

from iolaus.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from iolaus.runner.modules.automatic_finetuning import FinetuningModule
    from iolaus.runner.modules.automatic_pretraining import PretrainingModule
    from iolaus.runner.modules.finetuning import FinetuningRun
    from iolaus.runner.modules.pretraining import PretrainingRun
    from iolaus.runner.modules.vision_language import VisionLanguageModule
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "FinetuningModule",
    "FinetuningRun",
    "PretrainingModule",
    "PretrainingRun",
    "VisionLanguageModule",
]
