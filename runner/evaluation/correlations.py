"""Metrics of numbers. Only they need all of torchmetrics, so they are imported only when numbers are measured."""

import warnings

import torch
from torch import Tensor
from torchmetrics.regression import PearsonCorrCoef, SpearmanCorrCoef
from torchmetrics.utilities.data import dim_zero_cat


class LinearCorrelation(PearsonCorrCoef):
    """Pearson's correlation; 0 if one side is constant."""

    def compute(self) -> Tensor:
        """Returns the correlation, float64."""
        with warnings.catch_warnings(action="ignore"):  # of a variance near 0
            return super().compute().nan_to_num(0.0)


class RankCorrelation(SpearmanCorrCoef):
    """Spearman's correlation without the term that torchmetrics adds to the denominator; 0 if one side is constant.

    Example:
        >>> metric = RankCorrelation().set_dtype(torch.float64)
        >>> metric.update(torch.tensor([1.0, 2.0, 2.0]), torch.tensor([3.0, 4.0, 5.0]))
        >>> round(metric.compute().item(), 12)
        0.866025403784
    """

    def compute(self) -> Tensor:
        """Returns the correlation of the ranks, float64."""
        x, y = map(_centred_ranks, map(dim_zero_cat, (self.preds, self.target)))
        spread = ((x @ x) * (y @ y)).sqrt()
        return torch.where(spread > 0, x @ y / spread.clamp(min=0.25), 0.0)


def _centred_ranks(values: Tensor) -> Tensor:
    """Returns the ranks [D] minus their mean; equal values share the mean of their ranks."""
    _, group, counts = torch.unique(values, return_inverse=True, return_counts=True)
    ranks: Tensor = counts.cumsum(0).double() - (counts - 1) / 2
    return ranks[group] - (len(values) + 1) / 2
