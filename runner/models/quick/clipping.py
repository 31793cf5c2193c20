"""Clipping of gradients; of a table's, where they are made by row, only the rows of the batch are read and scaled."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from tiryns.runner.models.quick.embedding import changed_rows
from tiryns.runner.optim.compiled import factor_to
from tiryns.runner.patches.torch import foreach


def clip(parameters: Sequence[Tensor], limit: float) -> Tensor:
    """Scales the gradients to a total norm of at most `limit`; returns their norm before, 0-dim.

    As `torch.nn.utils.clip_grad_norm_`, but on a CPU gradients that are short enough are left as they are, and so are
    those whose norm is no finite number.

    Example:
        >>> weight = torch.nn.Parameter(torch.zeros(2))
        >>> weight.grad = torch.tensor([3.0, 4.0])
        >>> clip([weight], 1.0), weight.grad
        (tensor(5.), tensor([0.6000, 0.8000]))
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    rows = [changed_rows(gradient) for gradient in gradients]
    read = [g if r is None else g.index_select(0, r) for g, r in zip(gradients, rows, strict=True)]
    norm = torch.nn.utils.get_total_norm(read)
    if norm.device.type == "cpu" and not limit < norm < math.inf:  # for a GPU the test would wait
        return norm
    foreach.mul_(read, factor_to(limit, norm))
    for gradient, changed, values in zip(gradients, rows, read, strict=True):
        if changed is not None:
            gradient.index_copy_(0, changed, values)
    return norm
