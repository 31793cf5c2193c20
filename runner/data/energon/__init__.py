"""Data sets of megatron-energon: `module` for Lightning, `run` for a run, `tasks` from samples to micro-batches."""
