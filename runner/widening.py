"""Numbers in at least fp32: half precision would round sums, losses and averages, a cast to fp32 would narrow fp64."""

import torch
from torch import Tensor


def at_least_fp32(dtype: torch.dtype) -> torch.dtype:
    """Returns fp64 for fp64, else fp32.

    Example:
        >>> at_least_fp32(torch.bfloat16), at_least_fp32(torch.float64)
        (torch.float32, torch.float64)
    """
    return torch.promote_types(dtype, torch.float32)


def widen(values: Tensor) -> Tensor:
    """Returns values in at least fp32."""
    return values.to(at_least_fp32(values.dtype))
