"""Which samples make up global batch k: a function of the settings, the seed and k alone.

- `Shuffled`: every epoch in an order of its own; the default.
- `Sequential`: the dataset's order.
- `LengthGrouped`: batches of similar lengths, in shuffled order.
- `SplitModality`: every batch with images or without; `SplitModalitySampler` is the same for a plain
DataLoader.

Ranks, loader workers and micro-batches play no part here: `runner.order.partition` cuts a global batch for
them.
"""

from importlib import import_module
from typing import Any

from iolaus.runner.samplers.base import GlobalBatchSampler
from iolaus.runner.samplers.length_grouped import LengthGrouped
from iolaus.runner.samplers.sequential import Sequential
from iolaus.runner.samplers.shuffled import Shuffled
from iolaus.runner.samplers.split_modality import SplitModality

__all__ = [
    "GlobalBatchSampler",
    "LengthGrouped",
    "Sequential",
    "Shuffled",
    "SplitModality",
    "SplitModalitySampler",
]


def __getattr__(name: str) -> Any:
    """The sampler for a plain DataLoader needs torch, which those of runs do not."""
    if name != "SplitModalitySampler":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module("iolaus.runner.loaders.split_modality").SplitModalitySampler
