"""Data sets of megatron-energon: `module` for Lightning, `run` for a run, `tasks` from samples to micro-batches."""

from typing import TYPE_CHECKING

from iolaus.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from iolaus.runner.data.energon.loader import EnergonDataloader, cyclic_iter
    from iolaus.runner.data.energon.module import EnergonMultiModalDataModule, logger
    from iolaus.runner.data.energon.tasks import ConversationTaskEncoder, MultiModalSampleConfig
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "ConversationTaskEncoder",
    "EnergonDataloader",
    "EnergonMultiModalDataModule",
    "MultiModalSampleConfig",
    "cyclic_iter",
    "logger",
]
