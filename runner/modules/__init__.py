"""The LightningModules.

`PretrainingRun`, `FinetuningRun` and `VisionLanguageModule` take the parts of a run and its global batches:

- `base`: places and compiles the model, and makes seeds; `training`: the step that all objectives share,
  with clipping and the stop at a loss that is not a number. Read these first.
- `two_passes`: the gradient of a loss over a whole global batch.
- `pretraining`, `finetuning`, `vision_language`: validation, frozen parameters, and the files written after the training.
- `samples`: guesses for masked tokens; micro-batches as text.

`PretrainingModule` and `FinetuningModule` take keyword arguments and batches of a collator, for a plain Trainer:

- `automatic`: both modules, their base class, and the metrics of an evaluated set.
"""

from typing import TYPE_CHECKING

from tiryns.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from tiryns.runner.modules.automatic.finetuning import FinetuningModule
    from tiryns.runner.modules.automatic.pretraining import PretrainingModule
    from tiryns.runner.modules.finetuning import FinetuningRun
    from tiryns.runner.modules.pretraining import PretrainingRun
    from tiryns.runner.modules.vision_language import VisionLanguageModule
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["FinetuningModule", "FinetuningRun", "PretrainingModule", "PretrainingRun", "VisionLanguageModule"]
