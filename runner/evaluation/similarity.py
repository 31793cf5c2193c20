"""Scores of the texts of two sets against each other, by their vectors.

Letters in shapes: Q queries, P passages, D pairs, H width of a vector.
"""

from torch import Tensor
from torch.nn import functional


class DotProduct:
    """The dot product of two vectors [H]; a base class for other scores.

    Example:
        >>> import torch
        >>> queries, passages = torch.eye(2), torch.tensor([[3.0, 4.0]])
        >>> DotProduct().matrix(queries, passages).tolist(), COSINE.prepare(passages).tolist()
        ([[3.0], [4.0]], [[0.6000000238418579, 0.800000011920929]])
    """

    name = "dot"
    """The name of the score in sentence-transformers, and in a row of predictions."""

    def prepare(self, vectors: Tensor) -> Tensor:
        """Returns the vectors in the form that `matrix` and `pairwise` take, computed once for all scores."""
        return vectors

    def matrix(self, queries: Tensor, passages: Tensor) -> Tensor:
        """Returns the scores [Q, P] of prepared queries [Q, ...] and passages [P, ...]."""
        return queries @ passages.T

    def transpose(self, passages: Tensor, queries: Tensor) -> Tensor:
        """Returns the transpose [P, Q] of `matrix`; a score that is not symmetric overrides this method."""
        return self.matrix(passages, queries)

    def pairwise(self, queries: Tensor, passages: Tensor) -> Tensor:
        """Returns the scores [D] of prepared pairs [D, ...]."""
        return (queries * passages).sum(-1)

    def margins(self, queries: Tensor, passages: Tensor, negatives: Tensor) -> Tensor:
        """Returns the score of each passage minus the score of its negative [D], of vectors that are not prepared."""
        return (queries * (passages - negatives)).sum(-1)

    def products(self, vectors: Tensor) -> int:
        """Returns how many numbers the computation of one score holds in memory."""
        return 1


class Cosine(DotProduct):
    """The cosine of two vectors [H]; margins are those of dot products, as in MarginMSE (arXiv 2010.02666)."""

    name = "cosine"

    def prepare(self, vectors: Tensor) -> Tensor:
        """Returns vectors of unit length."""
        return functional.normalize(vectors, dim=-1)


DOT, COSINE = DotProduct(), Cosine()
