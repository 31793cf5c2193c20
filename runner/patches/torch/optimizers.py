"""Optimizers that unscale the gradients of fp16 themselves, as torch's fused ones do.

`torch.amp.GradScaler` (2.10 to 2.15) asks for the attribute `_step_supports_amp_scaling`, which has no public name.
"""

from torch.optim import Optimizer


def unscales_itself(optimizer: Optimizer) -> bool:
    """Whether the step of an optimizer unscales the gradients, so that they are still scaled before the step."""
    return bool(getattr(optimizer, "_step_supports_amp_scaling", False))
