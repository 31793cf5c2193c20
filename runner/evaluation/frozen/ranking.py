"""Cosines of pairs of texts, and how far up the passages that belong to a query stand among all passages."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tiryns.runner.evaluation.frozen.neighbours import AT_ONCE, unit
from tiryns.runner.evaluation.similarity import COSINE, DotProduct

DEPTH = 10
"""Ranks that count."""

Numbers = NDArray[np.float64]


def cosines(left: Tensor, right: Tensor) -> Tensor:
    """The cosine [D] of each pair of features [D, H], float64.

    Example:
        >>> cosines(torch.tensor([[3.0, 0.0]]), torch.tensor([[1.0, 1.0]])).tolist()
        [0.7071067811865475]
    """
    return (unit(left) * unit(right)).sum(-1)


class Ranking(NamedTuple):
    """The first passages for each query."""

    first: NDArray[np.int64]
    """[Q, up to 10], numbers of passages."""
    figures: dict[str, Numbers]
    """By name, each [Q]: `ndcg_at_10`, `mrr_at_10`, `recall_at_10`."""

    def means(self, weights: Numbers) -> dict[str, Numbers]:
        """Returns the mean of each figure [R] over queries with weights [R, Q]."""
        return {name: weights @ values / weights.sum(1) for name, values in self.figures.items()}


def rank(
    queries: Tensor, passages: Tensor, relevant: Sequence[Sequence[int]], similarity: DotProduct = COSINE
) -> Ranking:
    """Ranks all passages [P, H] for each of the queries [Q, H]; `relevant` are the passages that belong to a query [Q].

    nDCG with gains of 0 and 1 and a discount of log2(rank + 1) (Jarvelin and Kekalainen 2002), the reciprocal rank of the
    first relevant passage, and the share of the relevant passages, each among the first 10.

    Example:
        >>> queries, passages = torch.eye(2), torch.tensor([[1.0, 0.2], [1.0, 0.1], [0.0, 1.0]])
        >>> rank(queries, passages, [[0], [2]]).figures["mrr_at_10"].tolist()
        [0.5, 1.0]
    """
    asked, known = (similarity.prepared(vectors.double()) for vectors in (queries, passages))
    size = max(1, AT_ONCE // (len(passages) * similarity.products(known)))
    depth = min(DEPTH, len(passages))
    tops = [similarity.matrix(block, known).topk(depth, dim=1).indices for block in asked.split(size)]
    first = torch.cat(tops).cpu().numpy()
    hits = np.array([np.isin(top, own) for top, own in zip(first, relevant, strict=True)], dtype=np.float64)
    counts = np.array([len(own) for own in relevant])
    gains = 1 / np.log2(np.arange(2, DEPTH + 2))
    ideal = np.cumsum(gains)[np.minimum(counts, DEPTH) - 1]
    figures = {
        "ndcg_at_10": hits @ gains[:depth] / ideal,
        "mrr_at_10": (hits / np.arange(1, depth + 1)).max(1),
        "recall_at_10": hits.sum(1) / counts,
    }
    return Ranking(first, figures)
