"""What a training step allows its model: gradients that are made once, and added where they belong at once."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Allowed(NamedTuple):
    """What the present step allows; nothing outside of one."""

    once: bool = False
    """Gradients are taken once, and not differentiated again: a forward pass may prepare them in place."""
    directly: bool = False
    """Nobody reads gradients on their way to the weights, neither other ranks nor hooks: they may be added to those of a
    weight behind autograd's back."""


_allowed = Allowed()


def allowed() -> Allowed:
    """What the present step allows."""
    return _allowed


@contextmanager
def quick_gradients(once: bool, directly: bool) -> Iterator[None]:
    """A context, around forward and backward passes, that allows what `Allowed` says; the latter needs the former.

    Example:
        >>> with quick_gradients(once=True, directly=False):
        ...     allowed()
        Allowed(once=True, directly=False)
        >>> allowed()
        Allowed(once=False, directly=False)
    """
    global _allowed
    before, _allowed = _allowed, Allowed(once, once and directly)
    try:
        yield
    finally:
        _allowed = before
