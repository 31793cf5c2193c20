"""The queries of one attention that are read afterwards, so that a CPU leaves out the others."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

import torch
from torch import Tensor, nn


class Chosen:
    """Queries at positions [M] of a packed row [T], in ascending order; one that comes twice has no gradient.

    Example:
        >>> chosen = Chosen(torch.tensor([1, 4, 5]))
        >>> chosen.counts(torch.tensor([0, 3, 4, 8]))
        [1, 0, 2]
    """

    def __init__(self, positions: Tensor) -> None:
        self.positions = positions

    @cached_property
    def usable(self) -> bool:
        """Whether there are any, in the order that they must have."""
        return len(self.positions) > 0 and bool((self.positions.diff() >= 0).all())

    def counts(self, bounds: Tensor) -> list[int]:
        """How many of them each document has, which lie between `bounds` [D + 1]."""
        return torch.searchsorted(self.positions, bounds.long()).diff().tolist()


@contextmanager
def choose(attention: nn.Module | None, positions: Tensor | None) -> Iterator[None]:
    """A context in which the attention of this module is asked for at these positions [M] alone."""
    if attention is None or positions is None or positions.device.type != "cpu":
        yield
        return
    attention.__dict__["chosen_queries"] = Chosen(positions)
    try:
        yield
    finally:
        del attention.__dict__["chosen_queries"]


def chosen_queries(attention: nn.Module) -> Chosen | None:
    """The queries that the attention of this module is asked for; None for all, as in compiled code."""
    if torch.compiler.is_compiling():
        return None
    chosen: Chosen | None = vars(attention).get("chosen_queries")
    return chosen if chosen is not None and chosen.usable else None
