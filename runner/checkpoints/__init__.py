"""Checkpoints: when to save and what to keep (`callback`), whole files (`files`), one shard per rank (`sharded`)."""
