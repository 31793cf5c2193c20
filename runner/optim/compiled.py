"""Parts of a step that torch compiles besides the encoder: the head with its loss, clipping, the optimizer.

Parts that torch cannot compile run uncompiled.
"""

import inspect
import logging
import math
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer, RMSprop

from tiryns.runner.optim.groups import parameters_of
from tiryns.runner.patches.torch import foreach
from tiryns.runner.widening import widen

log = logging.getLogger("tiryns")

BACKEND = "inductor"
"""The backend of `torch.compile`."""

COMPILERS = (
    "torch._dynamo", "torch._functorch", "torch._inductor", "torch._subclasses", "torch.fx", "triton",
)  # fmt: skip
"""Packages whose errors mean that a function cannot be compiled."""

COMPILABLE = (Adam, AdamW, Adagrad, RMSprop, SGD)
"""torch's optimizers whose step is one graph for any learning rate."""


class Compiled:
    """A function that is compiled as one graph at its first call. If this fails, `plain` runs instead.

    By default `plain` is the function itself, uncompiled. A failed compilation is one line in the log. Errors of the
    functions themselves are raised. `dynamic` is as in `torch.compile`. With `cuda_graphs` a GPU replays the kernels of
    each size, and the next replay overwrites their results.

    Example:
        >>> twice = Compiled(lambda x: 2 * x, "doubling")
    """

    def __init__(
        self,
        function: Callable[..., Any],
        label: str,
        dynamic: bool | None = None,
        plain: Callable[..., Any] | None = None,
        cuda_graphs: bool = False,
    ) -> None:
        self._plain, self._label = plain or function, label
        self._compiled: Callable[..., Any] | None = torch.compile(
            function, backend=BACKEND, fullgraph=True, dynamic=dynamic,
            mode="reduce-overhead" if cuda_graphs else None,
        )  # fmt: skip

    @property
    def works(self) -> bool:
        """Whether torch could compile the function so far."""
        return self._compiled is not None

    def __call__(self, *arguments: object) -> Any:
        """Returns the result of the function."""
        if self._compiled is not None:
            try:
                return self._compiled(*arguments)
            except Exception as error:
                if not any(kind.__module__.startswith(COMPILERS) for kind in type(error).__mro__):
                    raise
                self._compiled = None
                reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
                log.info("%s: not compiled, as torch cannot (%s)", self._label, reason)
        return self._plain(*arguments)


def clip_to_limit(gradients: list[Tensor], limit: float) -> Tensor:
    """Clips gradients on one device as `torch.nn.utils.clip_grad_norm_` does; an infinite `limit` changes nothing."""
    norms = torch.stack(foreach.norm(gradients))
    norm: Tensor = torch.linalg.vector_norm(widen(norms))
    if math.isfinite(limit):
        foreach.mul_(gradients, factor_to(limit, norm))
    return norm


def factor_to(limit: float, norm: Tensor) -> Tensor:
    """Returns the factor, at most 1, that limits the total norm of gradients to `limit`; 0-dim."""
    return (limit / (norm + 1e-6)).clamp(max=1.0)


def on_gpu(tensors: Sequence[Tensor]) -> bool:
    """Whether all tensors are on one GPU, where compilation saves the time of launching kernels."""
    return len({t.device for t in tensors}) == 1 and tensors[0].is_cuda


def compile_step(optimizer: Optimizer) -> bool:
    """Compiles the update of an optimizer of torch whose parameters are on a GPU; returns whether it is compiled.

    Fused optimizers (one kernel already) and optimizers outside `COMPILABLE` stay uncompiled. So do hooks and closures.
    """
    is_fused = any(group.get("fused") for group in optimizer.param_groups)
    if type(optimizer) not in COMPILABLE or is_fused or not on_gpu(parameters_of(optimizer)):
        return False
    update = inspect.unwrap(type(optimizer).step)
    rates = [torch.tensor(0.0) for _ in optimizer.param_groups]
    original_rates: list[float | Tensor] = []

    def put_back() -> None:
        for group, rate in zip(optimizer.param_groups, original_rates, strict=True):
            group["lr"] = rate

    def plainly() -> None:
        put_back()
        update(optimizer)

    run = Compiled(lambda: update(optimizer), "the step of the optimizer", plain=plainly)

    def step(self: Optimizer, closure: Callable[[], float] | None = None) -> float | None:
        loss = None if closure is None else closure()
        original_rates[:] = [group["lr"] for group in self.param_groups]
        for group, rate in zip(self.param_groups, rates, strict=True):
            group["lr"] = rate.fill_(group["lr"])  # a number would be compiled in, and anew in each step
        try:
            with torch.no_grad():
                run()
        finally:
            put_back()
        return loss

    optimizer.step = MethodType(Optimizer.profile_hook_step(step), optimizer)  # type: ignore[method-assign]
    return True
