"""The 8-bit optimizers of bitsandbytes: blocks of 256 values that share a scale (arXiv 2110.02861)."""

from importlib import import_module
from typing import Any

from torch.optim import Optimizer


def refuse_quantized(name: str, quantized: bool) -> None:
    """Raises ValueError where 8-bit state is asked of an optimizer that has none."""
    if quantized:
        known = ", ".join(sorted(CLASSES))
        raise ValueError(f"{name} has no 8-bit variant; set quantized=false, or choose one of {known}")


CLASSES = {
    "adagrad": "Adagrad8bit",
    "adam": "Adam8bit",
    "adamw": "AdamW8bit",
    "lamb": "LAMB8bit",
    "lars": "LARS8bit",
    "lion": "Lion8bit",
    "rmsprop": "RMSprop8bit",
    "sgd": "SGD8bit",
}
"""The class of bitsandbytes behind each name."""


def eight_bit(name: str, groups: list[dict[str, Any]], **settings: Any) -> Optimizer:
    """The 8-bit variant of an optimizer; tensors of fewer than 4096 values keep 32 bits.

    Raises ImportError, naming the extra, where bitsandbytes is not installed.
    """
    try:
        library = import_module("bitsandbytes.optim")
    except ImportError as error:
        raise ImportError(
            f"{name} with quantized=true needs bitsandbytes: pip install 'iolaus[quantized]' ({error})"
        ) from error
    base = getattr(library, CLASSES[name])

    class EightBit(base):  # type: ignore[misc, valid-type]
        """Runs the load hooks, which bitsandbytes leaves out."""

        def load_state_dict(self, state_dict: dict[str, Any], move_to_device: bool = True) -> None:
            for hook in self._optimizer_load_state_dict_pre_hooks.values():
                state_dict = hook(self, state_dict) or state_dict
            super().load_state_dict(state_dict, move_to_device)

    EightBit.__name__ = EightBit.__qualname__ = CLASSES[name]
    optimizer: Optimizer = EightBit(groups, **settings)
    return optimizer
