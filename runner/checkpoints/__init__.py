"""Checkpoints.

- `callback`: when to save, what to keep, and which checkpoint to resume from.
- `rewind`: takes a run folder back to a checkpoint from before its loss diverged.
- `files`: whole checkpoints, written atomically and checked.
- `averages`: averages or merges the weights of several checkpoints.
- `digests`: hashes of weights and optimizer state.
- `sharded`: checkpoints in shards; each rank writes its own shard in the background.
"""

from typing import TYPE_CHECKING

from tiryns.runner.run.lazy import lazy_names

if TYPE_CHECKING:
    from tiryns.runner.checkpoints.callback import Checkpoint
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["Checkpoint"]
