"""Checkpoints: when to save and what to keep (`callback`), whole files (`files`), one shard per rank (`sharded`)."""

from typing import TYPE_CHECKING

from iolaus.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from iolaus.runner.checkpoints.callback import Checkpoint
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["Checkpoint"]
