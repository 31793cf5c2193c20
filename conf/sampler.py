"""Group `sampler`: which samples make up global batch k."""

from dataclasses import dataclass
from typing import Any

from omegaconf import II

from tiryns.conf.registry import register
from tiryns.conf.values import AT_LEAST_0, COUNT, POSITIVE, WHOLE_FROM_0, setting


@dataclass
class Shuffled:
    """Every epoch in a new order."""

    _target_: str = "runner.samplers.Shuffled"
    global_batch_size: int = setting(32, allowed=COUNT)
    """Sequences per optimizer step, over all ranks and micro-batches."""
    seed: int = II("seed")
    """Seed of the order of each epoch."""


@dataclass
class Growing(Shuffled):
    """Every epoch in a new order, in batches that grow at the beginning of the run (as in arXiv 2412.13663)."""

    _target_: str = "runner.samplers.Growing"
    warmup_from: int = setting(8, allowed=COUNT)
    """Sequences in the first global batch; later batches grow to `global_batch_size`."""
    warmup_steps: Any = setting(0.1, allowed=AT_LEAST_0)
    """Length of the warm-up: steps (int), or a fraction of the run's steps (float between 0 and 1)."""
    warmup_tokens: float | None = setting(None, allowed=POSITIVE)
    """Length of the warm-up in tokens, instead of `warmup_steps`."""
    warmup_by: int = setting(1, allowed=COUNT)
    """Number of sequences that each growth adds to the batches; all sizes last equally many steps."""


@dataclass
class Sequential(Shuffled):
    """Every epoch in the dataset's own order."""

    _target_: str = "runner.samplers.Sequential"
    seed: int = II("seed")
    """Seed of random transforms and masks; the order does not depend on it."""


@dataclass
class LengthGrouped(Shuffled):
    """Batches of similar lengths, in shuffled order."""

    _target_: str = "runner.samplers.LengthGrouped"
    pool_batches: int = setting(50, allowed=COUNT)
    """Number of batches whose samples are sorted together by length; 1: no sorting. A larger number sorts better."""


@dataclass
class SplitModality(Shuffled):
    """Batches either of samples with images or of text alone; the batch with the longest sample comes first."""

    _target_: str = "runner.samplers.SplitModality"
    image_patches: int = setting(576, allowed=WHOLE_FROM_0)
    """Tokens per image, used if the lengths in the data exclude them; 576 is CLIP ViT-L/14 at 336 pixels."""
    drop_last: bool = False
    """Whether to leave out the last, smaller batch of each modality."""


register("sampler", shuffled=Shuffled, growing=Growing, sequential=Sequential)
register("sampler", length_grouped=LengthGrouped, split_modality=SplitModality)
