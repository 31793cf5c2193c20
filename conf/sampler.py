"""Samplers: which samples make up global batch k."""

from dataclasses import dataclass

from omegaconf import II

from conf.registry import register


@dataclass
class Shuffled:
    """Every epoch in a new order."""

    _target_: str = "runner.samplers.Shuffled"
    global_batch_size: int = 256
    """Sequences per optimizer step, over all ranks and micro-batches."""
    seed: int = II("seed")
    """The order of the epochs follows from it."""


@dataclass
class Sequential:
    """Every epoch in the dataset's own order."""

    _target_: str = "runner.samplers.Sequential"
    global_batch_size: int = 256
    """Sequences per optimizer step, over all ranks and micro-batches."""
    seed: int = II("seed")
    """Changes nothing in the order; samples are transformed and masked under it."""


register("sampler", shuffled=Shuffled, sequential=Sequential)
