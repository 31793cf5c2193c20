"""Data modules for a plain `lightning.Trainer`: the readers, stores and collators of a run behind a `DataLoader`.

`reading` finds the documents of a path and a split, `passes` makes batches of stored samples and `streaming` of documents
as they come; `pretraining` and `finetuning` are the data modules, which `runner.data` names.
"""

from typing import TYPE_CHECKING

from iolaus.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from iolaus.runner.loaders.finetuning import FinetuningDataModule
    from iolaus.runner.loaders.pretraining import PretrainingDataModule
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["FinetuningDataModule", "PretrainingDataModule"]
