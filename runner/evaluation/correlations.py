"""Correlations of numbers, of all of them or as often as their examples are drawn.

Letters in shapes: R resamples, M numbers.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities.data import dim_zero_cat

from tiryns.runner.evaluation.statistics.intervals import Weights

Numbers = NDArray[np.float64]


class Correlation(Metric):
    """Pearson's correlation of numbers, or Spearman's `of_ranks`, which equal numbers share; 0 where a side is constant.

    Example:
        >>> metric = Correlation(of_ranks=True)
        >>> metric.update(torch.tensor([1.0, 2.0, 2.0]), torch.tensor([3.0, 4.0, 5.0]))
        >>> round(metric.compute().item(), 12)
        0.866025403784
    """

    full_state_update = False
    predicted: list[Tensor]
    true: list[Tensor]

    def __init__(self, of_ranks: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.of_ranks = of_ranks
        for name in ("predicted", "true"):
            self.add_state(name, [], dist_reduce_fx="cat")

    def update(self, predicted: Tensor, true: Tensor) -> None:
        """Adds numbers [M]."""
        self.predicted.append(predicted.double())
        self.true.append(true.double())

    def compute(self) -> Tensor:
        """Returns the correlation, float64."""
        numbers = [dim_zero_cat(values).cpu().numpy() for values in (self.predicted, self.true)]
        found = self.weighted(np.ones((1, len(numbers[0]))), *numbers)[0]
        return torch.tensor(np.nan_to_num(found), device=self.device)

    def weighted(self, weights: Weights, predicted: Numbers, true: Numbers) -> Numbers:
        """Returns the correlation [R] of numbers [M] with weights [R, M]; no number where a side is constant."""
        total = weights.sum(1, keepdims=True)
        sides = [ranks(weights, one) if self.of_ranks else one - one.mean() for one in (predicted, true)]
        dx, dy = (side - (weights * side).sum(1, keepdims=True) / total for side in sides)
        both, xx, yy = ((weights * product).sum(1) for product in (dx * dy, dx * dx, dy * dy))
        least_x, least_y = (1e-20 * (weights * side * side).sum(1) for side in sides)
        varies = (xx > least_x) & (yy > least_y)
        return np.where(varies, both / np.sqrt(np.where(varies, xx * yy, 1)), np.nan).clip(-1, 1)


def ranks(weights: Weights, values: Numbers) -> Numbers:
    """Returns the rank [R, M] of each item among those drawn, from 1; equal numbers have the mean of their ranks."""
    distinct, group = np.unique(values, return_inverse=True)
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(len(distinct)))
    drawn = np.add.reduceat(weights[:, order], starts, axis=1)
    first = np.cumsum(drawn, axis=1) - drawn
    return (first + (drawn + 1) / 2)[:, group]
