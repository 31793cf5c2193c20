"""The loss of labels with the options of finetuning: class weights, label smoothing, focal loss and R-Drop.

Letters in shapes: N items (texts, tokens), C labels.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

_SMALLEST = 1e-12
"""Lower bound of 1 - p in the focal factor: with an exponent below 1 its slope at 0 is infinite."""


class ItemLosses(NamedTuple):
    """The weighted `losses` [N] of items, and `weights` [N]. A global batch's loss is sum(losses) / sum(weights)."""

    losses: Tensor
    weights: Tensor
    logits: Tensor
    """The logits of the first pass, without gradients."""


class LabelLoss(nn.Module):
    """Losses of items by their labels; p are the probabilities of C labels, q are the targets, w are the labels' weights:

    one of C:      sum over c of w_c q_c (1 - p_c)^gamma (-log p_c), where q is 1 - eps + eps / C for the label, else
                   eps / C; an item's weight is its label's w (torch's `CrossEntropyLoss`)
    any of C:      mean over c of w_c q_c (1 - p_c)^gamma (-log p_c) + (1 - q_c) p_c^gamma (-log(1 - p_c)), where q is
                   1 - eps / 2 for a label that holds, else eps / 2; an item's weight is 1 (torch's `pos_weight`)

    With R-Drop the loss is the mean of two passes plus `r_drop` times half the sum of both Kullback-Leibler divergences
    between the passes, which is also multiplied by the item's weight.

    Example:
        >>> loss = LabelLoss(class_weights=[1.0, 3.0], focal_gamma=2.0)
        >>> output = loss(lambda: torch.zeros(2, 2), torch.tensor([0, 1]))
        >>> output.losses, output.weights
        (tensor([0.1733, 0.5199]), tensor([1., 3.]))
    """

    def __init__(
        self,
        class_weights: Sequence[float] | None = None,
        label_smoothing: float = 0.0,
        focal_gamma: float = 0.0,
        r_drop: float = 0.0,
        multi_label: bool = False,
    ) -> None:
        super().__init__()
        factors = None if class_weights is None else torch.tensor(class_weights, dtype=torch.float32)
        self.class_weights = factors  # not a buffer, which half precision would round
        self.smoothing, self.gamma, self.r_drop, self.multi_label = (
            label_smoothing, focal_gamma, r_drop, multi_label
        )  # fmt: skip

    def forward(
        self, compute: Callable[[], Tensor], labels: Tensor, positions: Tensor | None = None
    ) -> ItemLosses:
        """Returns the losses of labels, int64 [N] (negative for none) or float [N, C] (NaN for none).

        Each call of `compute` is one pass of the model. It returns logits in fp32: [N, C] of the items, or of more tokens
        if `positions` [N] gives the items' indices among these tokens.
        """

        def items(logits: Tensor) -> Tensor:
            return logits if positions is None else logits.index_select(0, positions)

        of_item = self._of_labels if self.multi_label else self._of_label
        logits = compute()
        if self.class_weights is not None:
            self.class_weights = self.class_weights.to(logits.device)
        first = items(logits)
        losses, weights = of_item(first, labels)
        if self.r_drop:
            second = items(compute())
            losses = (losses + of_item(second, labels)[0]) / 2
            losses = losses + self.r_drop * weights * self._divergence(first, second)
        return ItemLosses(losses, weights, logits.detach())

    def _of_label(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        has_label, number = labels >= 0, logits.shape[-1]
        targets = labels.clamp(min=0)
        logs = logits.log_softmax(-1)
        terms = -logs * self._focal(-torch.expm1(logs))
        if self.class_weights is not None:
            terms = terms * self.class_weights
        losses = terms.gather(1, targets[:, None])[:, 0]
        if self.smoothing:
            losses = losses * (1 - self.smoothing) + terms.sum(-1) * (self.smoothing / number)
        weights = has_label.to(logs.dtype)
        if self.class_weights is not None:
            weights = weights * self.class_weights[targets]
        return losses.masked_fill(~has_label, 0), weights

    def _of_labels(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        unknown = labels.isnan()
        targets = labels.masked_fill(unknown, 0).to(logits.dtype)
        targets = targets * (1 - self.smoothing) + self.smoothing / 2
        holds = -functional.logsigmoid(logits) * self._focal(torch.sigmoid(-logits))
        fails = -functional.logsigmoid(-logits) * self._focal(torch.sigmoid(logits))
        if self.class_weights is not None:
            holds = holds * self.class_weights
        losses = (targets * holds + (1 - targets) * fails).mean(-1)
        has_label = ~unknown.any(-1)
        return losses.masked_fill(~has_label, 0), has_label.to(logits.dtype)

    def _focal(self, others: Tensor) -> Tensor | float:
        """Returns the focal factor of each term -log x, where x is a probability; `others` is 1 - x."""
        return others.clamp(min=_SMALLEST) ** self.gamma if self.gamma else 1.0

    def _divergence(self, one: Tensor, other: Tensor) -> Tensor:
        """Returns half the sum [N] of both divergences between two passes; with `multi_label`, its mean over labels."""
        if self.multi_label:
            return ((one.sigmoid() - other.sigmoid()) * (one - other)).mean(-1) / 2
        logs = one.log_softmax(-1), other.log_softmax(-1)
        return ((logs[0].exp() - logs[1].exp()) * (logs[0] - logs[1])).sum(-1) / 2
