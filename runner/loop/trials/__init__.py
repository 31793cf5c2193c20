"""What is found out by running a part of a step before a run begins.

- `steps`: memory and time of a step, and the micro-batch that fits into memory.
- `precision`: the precision that a CPU is faster in.
"""
