"""A run in one process.

- `assembly`: the parts of a run, built and connected. Read it first.
- `trainer`: Lightning's Trainer for the hardware; `resolved`: the values of all settings that are `auto`.
- `sharding`: FSDP2, tensor parallelism, and ranks of one replica.
- `trial`: the cost of a step, measured; `profiling`: the time of a step, traced.
"""
