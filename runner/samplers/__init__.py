"""Samplers: which samples make global batch k, a function of the settings, the seed and k alone.

- `base`: `EpochIndex`, which names a sample of an epoch; the base classes, which iterate, resume and check that a saved
  state has the same order.
- `shuffled`: `Shuffled`, every epoch in an order of its own, the default; `Growing`, the same in batches that grow at the
  beginning; `Sequential`, the dataset's order; `LengthGrouped`, batches of similar lengths, in shuffled order.
- `split_modality`: `SplitModality`, every batch with images or without; `modality_batches` finds the examples of
  one modality and makes the batches.
- `mixed`: `Mixed`, several sources in exact shares; `OneSet`, several sets, where each batch has samples of one set;
  `Remaining`, the batches of another sampler without `skip_batches`; `Joined`, those of a run that goes on.
- `phased`: `Phased`, the phases of a run one after the other.

Samplers know no ranks, loader workers and micro-batches: `runner.order.partition` cuts a global batch for them.
"""

from tiryns.runner.run.lazy import lazy_names
from tiryns.runner.samplers.base import GlobalBatchSampler
from tiryns.runner.samplers.shuffled import Growing, LengthGrouped, Sequential, Shuffled
from tiryns.runner.samplers.split_modality import SplitModality

# that of a plain DataLoader needs torch
__getattr__, __dir__ = lazy_names(__name__, {"SplitModalitySampler": "tiryns.runner.loaders.split_modality"})

__all__ = [
    "GlobalBatchSampler", "Growing", "LengthGrouped", "Sequential", "Shuffled", "SplitModality",
    "SplitModalitySampler",
]  # fmt: skip
