"""Data sets of megatron-energon: tar shards that are read as a stream.

- `module`: `EnergonMultiModalDataModule`, the data module for Lightning; `run`: `EnergonData`, for runs.
- `tasks`: the task encoder, from samples to micro-batches.
- `loader`: an endless stream that resumes at any batch, and its state as plain values.
- `source`: checks a data set on disk, and skips samples that cannot be read; `prepare`: writes a data set.
"""

from typing import TYPE_CHECKING

from tiryns.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from tiryns.runner.data.energon.loader import EnergonDataloader, cyclic_iter
    from tiryns.runner.data.energon.module import EnergonMultiModalDataModule, logger
    from tiryns.runner.data.energon.tasks import ConversationTaskEncoder, MultiModalSampleConfig
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "ConversationTaskEncoder", "EnergonDataloader", "EnergonMultiModalDataModule", "MultiModalSampleConfig",
    "cyclic_iter", "logger",
]  # fmt: skip
