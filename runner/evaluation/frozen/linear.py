"""A linear probe: multinomial logistic regression on standardised features, the same result each time."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

PENALTIES = (1.0, 0.1, 0.01, 0.001, 0.0001)
"""Factors of the L2 penalty to choose from, the strongest first; each fit begins at the one before."""

MOST_ITERATIONS = 1000
"""Iterations of L-BFGS for one penalty."""

SMALLEST_GRADIENT = 1e-5
"""A fit has ended where no derivative of the loss is larger."""


class LinearProbe(NamedTuple):
    """A fitted probe."""

    mean: Tensor
    """[H], of the training examples, as is `scale`."""
    scale: Tensor
    """[H], the standard deviation, and 1 where a feature is constant."""
    weights: Tensor
    """[H + 1, C], the bias last."""
    penalty: float

    def logits(self, features: Tensor) -> Tensor:
        """The logits [D, C] of features [D, H], float64."""
        standardised = (features.double() - self.mean) / self.scale
        return standardised @ self.weights[:-1] + self.weights[-1]


def fit_probe(
    features: Tensor, labels: Tensor, num_classes: int, accuracy: Callable[[LinearProbe], float]
) -> LinearProbe:
    """The probe of the penalty with the best `accuracy`, on validation examples; of equal ones the strongest penalty.

    A probe minimises the mean cross-entropy of its training examples plus penalty / 2 times the squared weights, those of
    the bias left out, by full-batch L-BFGS in float64. In terms of scikit-learn's `LogisticRegression` it is
    C = 1 / (penalty * D).

    Example:
        >>> features, labels = torch.tensor([[-2.0], [-1.0], [1.0], [2.0]]), torch.tensor([0, 0, 1, 1])
        >>> probe = fit_probe(features, labels, 2, lambda probe: -probe.penalty)
        >>> probe.penalty, probe.logits(torch.tensor([[-0.5], [0.5]])).argmax(1).tolist()
        (0.0001, [0, 1])
    """
    whole = features.double()
    mean, spread = whole.mean(0), whole.std(0, correction=0)
    scale = torch.where(spread > 1e-12 * whole.abs().amax(0), spread, 1.0)
    standardised = (whole - mean) / scale
    weights = torch.zeros(whole.shape[1] + 1, num_classes, dtype=torch.float64, device=whole.device)
    probes = []
    for penalty in PENALTIES:
        weights = _minimised(weights, standardised, labels, penalty)
        probes.append(LinearProbe(mean, scale, weights, penalty))
    return max(probes, key=accuracy)


def _minimised(start: Tensor, features: Tensor, labels: Tensor, penalty: float) -> Tensor:
    """The weights [H + 1, C] with the smallest loss, found from `start`."""
    weights = start.clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [weights],
        max_iter=MOST_ITERATIONS,
        max_eval=2 * MOST_ITERATIONS,
        tolerance_grad=SMALLEST_GRADIENT,
        tolerance_change=0.0,
        line_search_fn="strong_wolfe",
    )

    def loss() -> Tensor:
        optimizer.zero_grad()
        logits = torch.addmm(weights[-1], features, weights[:-1])
        value = functional.cross_entropy(logits, labels) + penalty / 2 * weights[:-1].square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    return weights.detach()
