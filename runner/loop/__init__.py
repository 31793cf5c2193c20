"""A run in one process: its parts put together (`assembly`), the Trainer, sharding, what `auto` came to."""

from typing import TYPE_CHECKING

from iolaus.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from iolaus.runner.loop.assembly import Parts, assemble
    from iolaus.runner.loop.trainer import build_trainer
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["Parts", "assemble", "build_trainer"]
