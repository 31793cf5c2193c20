"""MaxSim. Letters in shapes: Q queries, P passages, D pairs, T tokens of a text, H width of a token's vector."""

import torch
from torch import Tensor

from tiryns.runner.evaluation.similarity import DotProduct

AT_ONCE = 2**24
"""Products of tokens that are held at a time."""

LOWEST = -2.0
"""What stands for the product with no token: below each product of two vectors of unit length."""


class MaxSim(DotProduct):
    """The sum over the tokens of a query of the largest dot product with a token of the passage (arXiv 2004.12832).

    Texts are [T, H] with vectors of unit length, and 0 where there is no token.

    Example:
        >>> query, passage = torch.eye(3)[None, :2], torch.tensor([[[0.6, 0.8, 0.0], [0.0, 0.0, 0.0]]])
        >>> MaxSim().matrix(query, passage).tolist()
        [[1.4000000953674316]]
    """

    name = "maxsim"

    def matrix(self, queries: Tensor, passages: Tensor) -> Tensor:
        """Returns the scores [Q, P] of queries [Q, T, H] and passages [P, T, H]."""
        queries, passages = trimmed(queries), trimmed(passages)
        count = max(1, AT_ONCE // (len(queries) * queries.shape[1] * passages.shape[1]))
        flat = queries.flatten(0, 1)
        scores = []
        for some in passages.split(count):
            products = (flat @ some.flatten(0, 1).T).view(len(flat), *some.shape[:2])
            largest = products.masked_fill(~(some != 0).any(-1), LOWEST).amax(-1)
            scores.append(largest.view(len(queries), -1, len(some)).sum(1))
        return torch.cat(scores, 1)

    def transposed(self, passages: Tensor, queries: Tensor) -> Tensor:
        """Returns the scores [P, Q], of which the tokens of queries are still those that are summed over."""
        return self.matrix(queries, passages).T

    def pairwise(self, queries: Tensor, passages: Tensor) -> Tensor:
        """Returns the scores [D] of queries [D, T, H] and passages [D, T, H]."""
        queries, passages = trimmed(queries), trimmed(passages)
        products = queries @ passages.transpose(1, 2)
        return products.masked_fill(~(passages != 0).any(-1)[:, None], LOWEST).amax(-1).sum(1)

    def margins(self, queries: Tensor, passages: Tensor, negatives: Tensor) -> Tensor:
        """Returns how far each passage's score is above that of the negative [D]."""
        return self.pairwise(queries, passages) - self.pairwise(queries, negatives)

    def products(self, vectors: Tensor) -> int:
        """Returns how many products of tokens one score takes at most."""
        return int(trimmed(vectors).shape[-2] ** 2)


def trimmed(texts: Tensor) -> Tensor:
    """Returns texts [..., T, H] without the places behind the last token of the longest, of which one is left."""
    there = (texts != 0).any(-1).flatten(0, -2).any(0)
    numbers = torch.arange(1, len(there) + 1, device=there.device)
    return texts[..., : max(1, int((there * numbers).amax())), :]
