"""What the training loop must do for an optimizer, such as to switch its weights for evaluation."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from torch.optim import Optimizer


class LoopNeeds:
    """Calls an optimizer's `train()` and `eval()`, which switch its weights, if it has them.

    An optimizer with more needs has a method `loop_needs` that returns a subclass of this class.
    """

    create_graph: bool = False
    """Whether this step's backward pass must itself be differentiable; set inside `step`."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    @contextmanager
    def step(self, step: int) -> Iterator[None]:
        """Wraps forward, backward and update of a step (0 is the first); an earlier block of it can lack the update."""
        self.train_mode()
        yield

    def after_backward(self) -> None:
        """Runs after the backward pass of each micro-batch."""

    def train_mode(self) -> None:
        """Puts the trained weights into the model; may be repeated."""
        if hasattr(self.optimizer, "train"):
            self.optimizer.train()

    def eval_mode(self) -> None:
        """Puts the weights to evaluate and export into the model; may be repeated."""
        if hasattr(self.optimizer, "eval"):
            self.optimizer.eval()

    @contextmanager
    def evaluation(self) -> Iterator[None]:
        """Wraps validation, test and export."""
        self.eval_mode()
        try:
            yield
        finally:
            self.train_mode()


def exported_weights(optimizer: Optimizer, which: str | None) -> AbstractContextManager[None]:
    """Returns a context in which the model has trained weights (`raw`), their average (`ema`) or those to export (None).

    Raises ValueError for `ema` without an average.
    """
    if which == "raw":
        return nullcontext()
    average = getattr(optimizer, "average", None)
    if which == "ema" and average is None and not hasattr(optimizer, "eval"):
        raise ValueError("--weights ema: the run keeps no average of its weights; module.ema=0.999 keeps one")
    if which == "ema" and average is not None:
        return average.in_model()  # type: ignore[no-any-return]
    return loop_needs(optimizer).evaluation()


def loop_needs(optimizer: Optimizer) -> LoopNeeds:
    """Returns the needs of this optimizer, or of the optimizer inside a wrapper such as Lightning's.

    Example:
        >>> import torch
        >>> weight = torch.nn.Parameter(torch.ones(1))
        >>> needs = loop_needs(torch.optim.SGD([weight], lr=0.1))
        >>> with needs.step(0):
        ...     weight.sum().backward(create_graph=needs.create_graph)  # of each micro-batch
        ...     needs.after_backward()
        ...     needs.optimizer.step()
    """
    inner = getattr(optimizer, "optimizer", None)
    if isinstance(inner, Optimizer):
        return loop_needs(inner)
    make = getattr(optimizer, "loop_needs", None)
    needs = make() if callable(make) else LoopNeeds(optimizer)
    assert isinstance(needs, LoopNeeds)
    return needs
