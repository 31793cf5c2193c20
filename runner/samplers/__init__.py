"""Which samples make up global batch k: a function of the settings, the seed and k alone.

`Shuffled` is the default, `Sequential` keeps the dataset's order. Ranks, loader workers and micro-batches
play no part here: `runner.data.partition` cuts a global batch for them.
"""

from .base import GlobalBatchSampler
from .sequential import Sequential
from .shuffled import Shuffled

__all__ = ["GlobalBatchSampler", "Sequential", "Shuffled"]
