"""From text to micro-batches.

Source -> tokeniser -> `store` (memory-mapped) -> sampler (global batch k) -> `partition` (ranks, micro-batches)
-> objective (targets and layout). `batches` joins the last three in the loader's workers; `module` holds what
all data modules share. `PretrainingDataModule` and `FinetuningDataModule` serve a plain `lightning.Trainer` from the same
parts: see `runner.loaders`.
"""

from typing import TYPE_CHECKING

from iolaus.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from iolaus.runner.data.energon.module import EnergonMultiModalDataModule
    from iolaus.runner.data.energon.run import EnergonData
    from iolaus.runner.data.labelled.finetuning import FinetuningData
    from iolaus.runner.data.text.pretraining import PretrainingData
    from iolaus.runner.data.vision.image_text import ImageTextDataModule

__getattr__, __dir__ = lazy_names(
    __name__, dict.fromkeys(("FinetuningDataModule", "PretrainingDataModule"), "iolaus.runner.loaders")
)

__all__ = [
    "EnergonData",
    "EnergonMultiModalDataModule",
    "FinetuningData",
    "FinetuningDataModule",
    "ImageTextDataModule",
    "PretrainingData",
    "PretrainingDataModule",
]
