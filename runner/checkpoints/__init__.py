"""Checkpoints.

- `callback`: when to save, what to keep, and which checkpoint to resume from.
- `files`: whole checkpoints, written atomically and checked.
- `sharded`: checkpoints of which every rank writes its shards, in the background.
"""
