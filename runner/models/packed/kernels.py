"""Flash attention over documents on a GPU: the choice of an installed kernel, and the arguments it supports."""

import inspect
from collections.abc import Callable
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import Any

import torch

FLASH_KERNELS = ("flash_attn", "varlen_attn")
"""Kernels of flash attention on a GPU: of the package `flash_attn`, and torch's own."""

_MOST_WITH_DROPOUT = 192
"""Size of heads above which the backward pass of `flash_attn` supports dropout only on GPUs of data centres."""

_kernel_name: str | None = None


def use_kernel(name: str | None) -> None:
    """Sets which of `FLASH_KERNELS` models use from now on; None for the first kernel that is installed."""
    global _kernel_name
    _kernel_name = name
    flash_kernel.cache_clear()


def gpu_has_flash(device: torch.device | None = None) -> bool:
    """Whether the GPU has flash attention: compute capability 8 or more."""
    return torch.cuda.is_available() and torch.cuda.get_device_capability(device) >= (8, 0)


@lru_cache
def flash_kernel(
    sides: tuple[int, int], scale: float, size: int, dropout: float = 0.0
) -> Callable[..., Any] | None:
    """Returns the chosen kernel for heads of a `size`; None if it lacks an argument, as torch's kernel lacks dropout.

    The kernel takes queries, keys and values [T, N, H], the bounds of documents twice, and the longest length twice.
    Dropout is drawn from the generator of the device.
    """
    if dropout and size > _MOST_WITH_DROPOUT:
        return None
    if _kernel_name != "varlen_attn" and find_spec("flash_attn"):
        from flash_attn import flash_attn_varlen_func

        return partial(flash_attn_varlen_func, dropout_p=dropout, softmax_scale=scale, window_size=sides)
    from torch.nn.attention.varlen import varlen_attn

    arguments: dict[str, Any] = {"dropout_p": dropout} if dropout else {}
    arguments |= {} if sides == (-1, -1) else {"window_size": sides}
    if abs(scale - size**-0.5) > 1e-9:
        arguments["scale"] = scale
    parameters = inspect.signature(varlen_attn).parameters  # older ones have neither window nor scale
    return partial(varlen_attn, **arguments) if arguments.keys() <= parameters.keys() else None
