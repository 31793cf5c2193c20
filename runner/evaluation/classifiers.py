"""Probes of features that train no encoder: multinomial logistic regression, and nearest neighbours by their cosine.

Both are chosen on validation examples. Letters in shapes: D examples, H features, C classes, Q queries.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from tiryns.runner.evaluation.ranks import AT_ONCE, unit

PENALTIES = (1.0, 0.1, 0.01, 0.001, 0.0001)
"""Factors of the L2 penalty to choose from, the strongest first; each fit starts from the weights of the fit before."""

SMALLEST_GRADIENT = 1e-5
"""A fit ends when no derivative of the loss is larger than this."""


class LinearProbe(NamedTuple):
    """A fitted probe."""

    mean: Tensor
    """[H], the mean of the training examples."""
    scale: Tensor
    """[H], the standard deviation of the training examples; 1 if a feature is constant."""
    weights: Tensor
    """[H + 1, C], the bias last."""
    penalty: float

    def logits(self, features: Tensor) -> Tensor:
        """Returns the logits [D, C] of features [D, H], float64."""
        z_scores = (features.double() - self.mean) / self.scale
        return z_scores @ self.weights[:-1] + self.weights[-1]


def fit_probe(
    features: Tensor, labels: Tensor, num_classes: int, accuracy: Callable[[LinearProbe], float]
) -> LinearProbe:
    """Returns the probe whose penalty gives the best `accuracy` on validation examples; on ties the strongest penalty.

    A probe minimises the mean cross-entropy of its training examples plus penalty / 2 times the squared weights, except
    for the bias, by full-batch L-BFGS in float64. In scikit-learn's `LogisticRegression` the penalty is
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
    z_scores = (whole - mean) / scale
    weights = torch.zeros(whole.shape[1] + 1, num_classes, dtype=torch.float64, device=whole.device)
    probes = []
    for penalty in PENALTIES:
        weights = _minimise(weights, z_scores, labels, penalty)
        probes.append(LinearProbe(mean, scale, weights, penalty))
    return max(probes, key=accuracy)


def _minimise(start: Tensor, features: Tensor, labels: Tensor, penalty: float) -> Tensor:
    """Returns the weights [H + 1, C] with the smallest loss, found from `start`."""
    weights = start.clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [weights], max_iter=1000, max_eval=2000, tolerance_grad=SMALLEST_GRADIENT, tolerance_change=0.0,
        line_search_fn="strong_wolfe",
    )  # fmt: skip

    def loss() -> Tensor:
        optimizer.zero_grad()
        logits = torch.addmm(weights[-1], features, weights[:-1])
        value = functional.cross_entropy(logits, labels) + penalty / 2 * weights[:-1].square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    return weights.detach()


NUMBERS = (1, 3, 5, 10, 20, 50)
"""Numbers of neighbours to choose from."""


class Neighbours(NamedTuple):
    """Training examples; the `number` nearest examples vote on the class of each text."""

    features: Tensor
    """[D, H], of length 1."""
    labels: Tensor
    """[D]"""
    num_classes: int
    number: int

    def votes(self, features: Tensor) -> Tensor:
        """Returns the votes [Q, C] of the nearest training examples per class; `argmax` takes the first of equal ones."""
        blocks = unit(features).split(max(1, AT_ONCE // len(self.features)))
        nearest = ((block @ self.features.T).topk(self.number, dim=1).indices for block in blocks)
        return torch.cat([functional.one_hot(self.labels[n], self.num_classes).sum(1) for n in nearest])


def fit_neighbours(
    features: Tensor, labels: Tensor, num_classes: int, accuracy: Callable[[Neighbours], float]
) -> Neighbours:
    """Returns the neighbours whose number gives the best `accuracy` on validation examples; on ties the smallest number.

    Each neighbour votes with weight 1, as in scikit-learn's `KNeighborsClassifier(metric="cosine")`.

    Example:
        >>> features, labels = torch.tensor([[1.0, 0.0], [2.0, 0.1], [0.0, 1.0]]), torch.tensor([0, 0, 1])
        >>> found = fit_neighbours(features, labels, 2, lambda neighbours: -neighbours.number)
        >>> found.number, found.votes(torch.tensor([[0.1, 3.0]])).tolist()
        (1, [[0, 1]])
    """
    numbers = [number for number in NUMBERS if number <= len(features)]
    unit_features = unit(features)
    return max((Neighbours(unit_features, labels, num_classes, number) for number in numbers), key=accuracy)
