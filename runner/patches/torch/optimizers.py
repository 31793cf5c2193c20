"""Optimizers that change gradients: those that unscale fp16 themselves, as torch's fused ones do, and others in place.

`torch.amp.GradScaler` (2.10 to 2.15) asks for the attribute `_step_supports_amp_scaling`, and autograd counts in the
attribute `_version` how often a tensor was changed; neither has a public name.
"""

from torch import Tensor
from torch.optim import Optimizer


def unscales_itself(optimizer: Optimizer) -> bool:
    """Whether the step of an optimizer unscales the gradients, so that they are still scaled before the step."""
    return bool(getattr(optimizer, "_step_supports_amp_scaling", False))


def changes(gradient: Tensor) -> int:
    """Returns how often a tensor was changed in place."""
    return gradient._version
