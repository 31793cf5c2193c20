"""The nearest neighbours of features: those with the largest cosine vote for their class."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

NUMBERS = (1, 3, 5, 10, 20, 50)
"""Numbers of neighbours to choose from."""

AT_ONCE = 1 << 24
"""Cosines that are computed at a time."""


class Neighbours(NamedTuple):
    """Training examples that vote, `number` of them for each text."""

    features: Tensor
    """[D, H], of length 1."""
    labels: Tensor
    """[D]"""
    num_classes: int
    number: int

    def votes(self, features: Tensor) -> Tensor:
        """The votes [Q, C] of the nearest training examples for each class; the first of the largest ones counts."""
        blocks = unit(features).split(max(1, AT_ONCE // len(self.features)))
        nearest = ((block @ self.features.T).topk(self.number, dim=1).indices for block in blocks)
        return torch.cat([functional.one_hot(self.labels[n], self.num_classes).sum(1) for n in nearest])


def fit_neighbours(
    features: Tensor, labels: Tensor, num_classes: int, accuracy: Callable[[Neighbours], float]
) -> Neighbours:
    """The neighbours in the number with the best `accuracy`, on validation examples; of equal numbers the smallest.

    Each votes with weight 1, as in scikit-learn's `KNeighborsClassifier(metric="cosine")`.

    Example:
        >>> features, labels = torch.tensor([[1.0, 0.0], [2.0, 0.1], [0.0, 1.0]]), torch.tensor([0, 0, 1])
        >>> found = fit_neighbours(features, labels, 2, lambda neighbours: -neighbours.number)
        >>> found.number, found.votes(torch.tensor([[0.1, 3.0]])).tolist()
        (1, [[0, 1]])
    """
    numbers = [number for number in NUMBERS if number <= len(features)]
    known = unit(features)
    return max((Neighbours(known, labels, num_classes, number) for number in numbers), key=accuracy)


def unit(features: Tensor) -> Tensor:
    """Features [..., H] divided by their length, float64."""
    return functional.normalize(features.double(), dim=-1)
