"""Optimizers that change gradients: those that unscale fp16 themselves, as torch's fused ones do, and others in place.

`torch.amp.GradScaler` (2.10 to 2.15) asks for the attribute `_step_supports_amp_scaling`, and sets `found_inf` for a step
of such an optimizer. Autograd counts in the attribute `_version` how often a tensor was changed. None has a public name.
"""

from torch import Tensor
from torch.optim import Optimizer


def unscales_itself(optimizer: Optimizer) -> bool:
    """Whether the step of an optimizer unscales the gradients, so that they are still scaled before the step."""
    return bool(getattr(optimizer, "_step_supports_amp_scaling", False))


def skips_update(optimizer: Optimizer) -> bool:
    """Whether this step of an optimizer that unscales fp16 itself changes no weight, as its gradients overflowed."""
    return bool(getattr(optimizer, "found_inf", False))


def changes(gradient: Tensor) -> int:
    """Returns how often a tensor was changed in place."""
    return gradient._version
