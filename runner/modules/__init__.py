"""The LightningModules: one training step that all objectives share, and modules for a plain `lightning.Trainer`.

`PretrainingRun`, `FinetuningRun` and `VisionLanguageModule` take the parts of a run, made as the config says, and its
global batches; `PretrainingModule` and `FinetuningModule` take keyword arguments and batches of a collator.
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
