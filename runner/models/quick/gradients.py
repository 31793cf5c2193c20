"""Shortcuts for gradients that a training step allows; on a CPU, only the used rows of an embedding's gradient change.

In each pass torch fills a gradient as large as the table with zeros, and adds it to the others. This takes much of a
step of a small model. Here rows are added to the table's gradient in place. A new gradient reuses the last one's memory,
in which only the used rows are set to zero. Clipping also reads and scales only the rows of the batch.

Letters in shapes: V tokens of the vocabulary, H width.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from tiryns.runner.optim.compiled import factor_to
from tiryns.runner.patches.torch import foreach
from tiryns.runner.patches.torch.optimizers import changes


class Allowed(NamedTuple):
    """Shortcuts that the current step allows; none outside of a step."""

    once: bool = False
    """Gradients are taken once and not differentiated again, so a forward pass may prepare them in place."""
    directly: bool = False
    """No other rank and no hook reads gradients before they reach the weights, so they may be added to a weight's
    gradient without autograd."""


_shortcuts = Allowed()


def shortcuts() -> Allowed:
    """Returns the shortcuts that the current step allows."""
    return _shortcuts


@contextmanager
def quick_gradients(once: bool, directly: bool) -> Iterator[None]:
    """Allows shortcuts (see `Allowed`) in forward and backward passes of the block; `directly` needs `once`.

    Example:
        >>> with quick_gradients(once=True, directly=False):
        ...     shortcuts()
        Allowed(once=True, directly=False)
        >>> shortcuts()
        Allowed(once=False, directly=False)
    """
    global _shortcuts
    before, _shortcuts = _shortcuts, Allowed(once, once and directly)
    try:
        yield
    finally:
        _shortcuts = before


def replace_embeddings(model: nn.Module) -> None:
    """Replaces each `torch.nn.Embedding` of a model by `Embedding`, unless it has settings that `Embedding` lacks."""
    for module in model.modules():
        if type(module) is nn.Embedding and not (
            module.sparse or module.scale_grad_by_freq or module.max_norm is not None
        ):
            module.__class__ = Embedding


class Embedding(nn.Embedding):
    """`torch.nn.Embedding` that adds only the used rows to its gradient, if the step allows it (`quick_gradients`)."""

    def forward(self, input: Tensor) -> Tensor:
        """Returns the rows [..., H] of the table [V, H] at indices [...]."""
        weight = self.weight
        trains = shortcuts().directly and weight.requires_grad and torch.is_grad_enabled()
        plain = type(weight) is nn.Parameter and weight.device.type == "cpu"
        if not (trains and plain) or torch.compiler.is_compiling():
            return super().forward(input)
        # has autograd call `backward`, for the table is no input
        anchor = torch.zeros((), requires_grad=True)
        return _Rows.apply(anchor, input, self)

    def add_gradient(self, numbers: Tensor, gradient: Tensor) -> None:
        """Adds gradients [..., H] of the rows with these indices [...] to the table's gradient."""
        numbers, gradient = numbers.flatten(), gradient.flatten(0, -2).to(self.weight.dtype)
        if self.padding_idx is not None:
            gradient = gradient.masked_fill((numbers == self.padding_idx)[:, None], 0)
        weight = self.weight
        if weight.grad is None:
            weight.grad = _emptied_gradient(weight)
        rows = _rows_of(weight.grad)
        weight.grad.index_add_(0, numbers, gradient)
        if rows is not None:
            _remember(weight.grad, [*rows, numbers])


def changed_rows(gradient: Tensor) -> Tensor | None:
    """Returns the indices of a gradient's possibly nonzero rows, without repeats; None if they are unknown."""
    rows = _rows_of(gradient)
    return torch.cat(rows).unique() if rows else None


def _rows_of(gradient: Tensor) -> list[Tensor] | None:
    """Returns the indices that were remembered for a gradient; None if something else has changed the gradient since.

    Autograd changes gradients of tied tables. Some optimizers compute in their gradients, as LARS does, and so change
    rows that no token of the batch has.
    """
    rows, version = getattr(gradient, "rows", (None, 0))
    return rows if version == changes(gradient) else None


def _remember(gradient: Tensor, rows: list[Tensor]) -> None:
    """Notes the indices of a gradient's possibly nonzero rows."""
    gradient.rows = rows, changes(gradient)  # type: ignore[attr-defined]


def _emptied_gradient(weight: Tensor) -> Tensor:
    """Returns zeros in the memory of a table's last gradient, of which only the nonzero rows change if they are known."""
    gradient: Tensor | None = getattr(weight, "row_gradient", None)  # shared with other modules of the table
    if gradient is None:
        gradient = weight.row_gradient = torch.zeros_like(weight)  # type: ignore[attr-defined]
    elif (rows := _rows_of(gradient)) is None:
        gradient.zero_()
    elif rows:
        gradient.index_fill_(0, torch.cat(rows), 0)
    _remember(gradient, [])
    return gradient


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, anchor: Tensor, numbers: Tensor, table: Embedding) -> Tensor:
        ctx.table = table
        ctx.save_for_backward(numbers)
        return functional.embedding(numbers, table.weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Returns no gradient, as the table has it already."""
        (numbers,) = ctx.saved_tensors
        ctx.table.add_gradient(numbers, gradient)
        return None, None, None


def clip(parameters: Sequence[Tensor], limit: float) -> Tensor:
    """Scales the gradients to a total norm of at most `limit`; returns their norm before, 0-dim.

    As `torch.nn.utils.clip_grad_norm_`, but on a CPU gradients whose norm is small enough or not finite stay unchanged.

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
    for gradient, indices, values in zip(gradients, rows, read, strict=True):
        if indices is not None:
            gradient.index_copy_(0, indices, values)
            _remember(gradient, [indices])
    return norm
