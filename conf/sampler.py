"""Samplers: which samples make up global batch k."""

from dataclasses import dataclass

from omegaconf import II

from iolaus.conf.registry import register
from iolaus.conf.values import COUNT, WHOLE_FROM_0, setting


@dataclass
class Shuffled:
    """Every epoch in a new order."""

    _target_: str = "runner.samplers.Shuffled"
    global_batch_size: int = setting(32, allowed=COUNT)
    """Sequences per optimizer step, over all ranks and micro-batches."""
    seed: int = II("seed")
    """The order of the epochs follows from it."""


@dataclass
class Sequential(Shuffled):
    """Every epoch in the dataset's own order."""

    _target_: str = "runner.samplers.Sequential"
    seed: int = II("seed")
    """Changes nothing in the order; samples are transformed and masked under it."""


@dataclass
class LengthGrouped(Shuffled):
    """Batches of similar lengths, in shuffled order."""

    _target_: str = "runner.samplers.LengthGrouped"
    pool_batches: int = setting(50, allowed=COUNT)
    """Batches whose samples are sorted by length together; 1 groups nothing, more groups closer."""


@dataclass
class SplitModality(Shuffled):
    """Every batch with images or without, the one with the longest example first."""

    _target_: str = "runner.samplers.SplitModality"
    global_batch_size: int = 32
    """Examples per optimizer step, over all ranks and micro-batches."""
    image_patches: int = setting(576, allowed=WHOLE_FROM_0)
    """Tokens that an image adds to the length of its example where the data does not count them itself; 576 are those of
    CLIP ViT-L/14 at 336 pixels."""
    drop_last: bool = False
    """Whether to leave out the last, smaller batch of each modality."""


register(
    "sampler",
    shuffled=Shuffled,
    sequential=Sequential,
    length_grouped=LengthGrouped,
    split_modality=SplitModality,
)
