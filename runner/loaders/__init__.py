"""Data modules for a plain `lightning.Trainer`: the readers, stores and collators of a run behind a `DataLoader`.

- `pretraining`, `finetuning`: the data modules, which `runner.data` names; `base`: their base class.
- `passes`: batches of stored samples, or of documents as they are read.
- `microbatches`: flat samples as a batch, and a batch cut into micro-batches, for a user's own loop.
- `multi_epoch`: the resampler; `split_modality`: the sampler of batches that have one modality each.
"""

from typing import TYPE_CHECKING

from tiryns.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from tiryns.runner.loaders.finetuning import FinetuningDataModule
    from tiryns.runner.loaders.pretraining import PretrainingDataModule
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["FinetuningDataModule", "PretrainingDataModule"]
