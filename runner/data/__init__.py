"""From text to micro-batches.

Source -> tokeniser -> `store` (memory-mapped) -> sampler (global batch k) -> `partition` (ranks and micro-batches)
-> objective (targets and layout). `batches` joins the last three in the loader's workers; `module` holds what all
data modules share.
"""

from .pretraining import PretrainingDataModule

__all__ = ["PretrainingDataModule"]
