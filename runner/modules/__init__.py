"""The LightningModules.

`PretrainingRun`, `FinetuningRun` and `VisionLanguageModule` take the parts of a run and its global batches:

- `base`: the model, placed and compiled; `training`: the step that all objectives share. Read these first.
- `two_passes`: the gradient of a loss over a whole global batch; `seeds`: those of a step.
- `source_losses`: the training loss of each source of a mixture.
- `fixed_models`: frozen models that are asked, such as a teacher.
- `pretraining`, `finetuning`, `vision_language`: validation, and the files written after the training.
- `freezing`: the parameters that finetuning leaves as they are.
- `samples`: guesses for masked tokens; `texts`: micro-batches as text.

`PretrainingModule` and `FinetuningModule` take keyword arguments and batches of a collator, for a plain Trainer:

- `automatic`: both, their base class, and the figures of an evaluated set.
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

__all__ = [
    "FinetuningModule",
    "FinetuningRun",
    "PretrainingModule",
    "PretrainingRun",
    "VisionLanguageModule",
]
