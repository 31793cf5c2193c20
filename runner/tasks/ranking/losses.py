"""Losses of scored lists of candidates, each 0 where no grade is known.

- `listwise`: the cross-entropy of the softmax over a list, whose mass the relevant candidates share by their grades:
  ListNet (Cao et al., ICML 2007). For few relevant candidates among many, and the best beginning.
- `ranknet`: the logistic loss of each pair of a better and a worse candidate (Burges et al., ICML 2005). For grades that
  only tell an order.
- `margin`: the squared difference of each such pair's margin to that of their grades, MarginMSE (Hofstaetter et al.,
  arXiv 2010.02666). For grades that are the scores of a teacher.
- `pointwise`: binary cross-entropy with logits of each candidate; a grade above 1 counts as 1. For scores that mean the
  same for every query, such as those a threshold is set on.

Letters in shapes: E lists, C candidates of the longest. `scores` [E, C] are -inf, `grades` [E, C] NaN beyond a list.
"""

import torch
from torch import Tensor
from torch.nn import functional


def listwise(scores: Tensor, grades: Tensor) -> Tensor:
    """The cross-entropy of each list [E, C]."""
    mass = grades.nan_to_num(0.0)
    shares = mass / mass.sum(-1, keepdim=True).clamp_min(torch.finfo(mass.dtype).tiny)
    return -shares * scores.log_softmax(-1).masked_fill(shares == 0, 0.0)


def pointwise(scores: Tensor, grades: Tensor) -> Tensor:
    """The binary cross-entropy of each candidate [E, C]."""
    targets, unknown = grades.nan_to_num(0.0).clamp_max(1.0), grades.isnan()
    known = scores.masked_fill(unknown, 0.0)
    losses = functional.binary_cross_entropy_with_logits(known, targets, reduction="none")
    return losses.masked_fill(unknown, 0.0)


def ranknet(scores: Tensor, grades: Tensor) -> Tensor:
    """The logistic loss of each pair [E, C, C]."""
    return functional.softplus(-margins(scores, grades)).masked_fill(~ordered(grades), 0.0)


def margin(scores: Tensor, grades: Tensor) -> Tensor:
    """The squared error of each pair's margin [E, C, C]."""
    errors = margins(scores, grades) - margins(grades, grades)
    return errors.square().masked_fill(~ordered(grades), 0.0)


def ordered(grades: Tensor) -> Tensor:
    """Whether the first candidate of each pair is better than the second, bool [E, C, C]."""
    return grades[:, :, None] > grades[:, None, :]


def margins(scores: Tensor, grades: Tensor) -> Tensor:
    """The difference of the scores of each pair [E, C, C], 0 without grades."""
    known = scores.masked_fill(grades.isnan(), 0.0)
    return known[:, :, None] - known[:, None, :]


LOSSES = {loss.__name__: loss for loss in (listwise, ranknet, margin, pointwise)}


def list_losses(loss: str, scores: Tensor, grades: Tensor) -> Tensor:
    """The sum of the losses of each list [E].

    Example:
        >>> scores, grades = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0]])
        >>> [round(list_losses(loss, scores, grades).item(), 4) for loss in LOSSES]
        [0.3133, 0.3133, 0.0, 1.0064]
    """
    return LOSSES[loss](scores, grades.to(scores.dtype)).flatten(1).sum(-1)


def list_weights(loss: str, grades: Tensor) -> Tensor:
    """How much each list adds to the divisor of the loss [E]: itself, its candidates, or its pairs; 0 without grades.

    Example:
        >>> grades = torch.tensor([[2.0, 0.0, 1.0]])
        >>> [list_weights(loss, grades).item() for loss in LOSSES]
        [1.0, 3.0, 3.0, 3.0]
    """
    known = ~grades.isnan()
    counted = {"listwise": known.any(-1, keepdim=True), "pointwise": known}
    return (counted[loss] if loss in counted else ordered(grades)).flatten(1).sum(-1, dtype=torch.float32)
