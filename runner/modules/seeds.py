"""The seeds of a step, for generators of torch and for keyed dropout."""

import torch


def step_seed(seed: int, step: int, rank: int) -> int:
    """A seed for dropout and the like that depends on (seed, step, rank) alone, so no state need be saved."""
    mixed = (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + rank * 0x94D049BB133111EB) % 2**64
    mixed = (mixed ^ (mixed >> 31)) * 0xD6E8FEB86659FD93 % 2**64
    return (mixed ^ (mixed >> 32)) % 2**63


def seed_generators(seed: int, device: torch.device) -> None:
    """Seeds the generators of a step.

    `torch.manual_seed` takes 2 ms, and keeps the seed with a traceback for each kind of accelerator that is not there.
    """
    if device.type not in ("cpu", "cuda"):
        torch.manual_seed(seed)
        return
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
