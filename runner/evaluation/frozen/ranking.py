"""Cosines of pairs of texts, and how far up the passages that belong to a query stand among all passages."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tiryns.runner.evaluation.frozen.classifiers import AT_ONCE, unit
from tiryns.runner.evaluation.ranks import DEPTH, Numbers, ndcg
from tiryns.runner.evaluation.similarity import COSINE, DotProduct

DEEP = 100
"""Ranks of `map_at_100` and `recall_at_100`."""


def cosines(left: Tensor, right: Tensor) -> Tensor:
    """The cosine [D] of each pair of features [D, H], float64.

    Example:
        >>> cosines(torch.tensor([[3.0, 0.0]]), torch.tensor([[1.0, 1.0]])).tolist()
        [0.7071067811865475]
    """
    return (unit(left) * unit(right)).sum(-1)


def score_blocks(
    queries: Tensor, passages: Tensor, similarity: DotProduct = COSINE
) -> Iterator[tuple[int, Tensor]]:
    """Yields the scores [some, P] of some queries at a time, with the number of the first one."""
    asked, known = (similarity.prepared(vectors.double()) for vectors in (queries, passages))
    first = 0
    for block in asked.split(max(1, AT_ONCE // (len(passages) * similarity.products(known)))):
        yield first, similarity.matrix(block, known)
        first += len(block)


def largest(scores: Tensor, count: int) -> Tensor:
    """Returns the columns [Q, count] of the largest scores [Q, P] of each row, in their order; of equal ones the first.

    Example:
        >>> largest(torch.tensor([[0.5, 0.1, 0.9, 0.5, 0.5]]), 3).tolist()
        [[2, 0, 3]]
    """
    values, columns = scores.topk(count, dim=1)
    columns = columns.sort(dim=1).values
    order = scores.gather(1, columns).sort(dim=1, descending=True, stable=True).indices
    columns = columns.gather(1, order)
    # Of scores that equal the last one, topk takes any
    tied = (scores >= values[:, -1:]).sum(1) > count
    columns[tied] = scores[tied].sort(dim=1, descending=True, stable=True).indices[:, :count]
    return columns


class Ranking(NamedTuple):
    """The first passages for each query."""

    first: NDArray[np.int64]
    """[Q, up to 10 or 100], numbers of passages; -1 where there is no further one."""
    figures: dict[str, Numbers]
    """By name, each [Q]: `ndcg_at_10`, `mrr_at_10`, `recall_at_10`; of 100 ranks also `map_at_100`, `recall_at_100`."""

    def means(self, weights: Numbers) -> dict[str, Numbers]:
        """Returns the mean of each figure [R] over queries with weights [R, Q]."""
        return {name: weights @ values / weights.sum(1) for name, values in self.figures.items()}


def rank(
    queries: Tensor,
    passages: Tensor,
    relevant: Sequence[Sequence[int]],
    grades: Sequence[Sequence[float]] | None = None,
    excluded: Sequence[int] | None = None,
    depth: int = DEPTH,
    similarity: DotProduct = COSINE,
) -> Ranking:
    """Ranks all passages [P, H] for each of the queries [Q, H]; `relevant` are the passages that belong to a query [Q].

    `ndcg` with the `grades` of relevant passages, 1 if unset, the reciprocal rank of the first relevant passage, and the
    share of the relevant passages, each among the first 10. With a `depth` of 100 also that share among 100, and the mean
    over the relevant passages of the precision at their ranks, 0 below rank 100. Of equal cosines the first passage is
    ahead. `excluded` is the number of a passage that is not ranked for a query, -1 for none.

    Example:
        >>> queries, passages = torch.eye(2), torch.tensor([[1.0, 0.2], [1.0, 0.1], [0.0, 1.0]])
        >>> rank(queries, passages, [[0], [2]]).figures["mrr_at_10"].tolist()
        [0.5, 1.0]
    """
    tops = []
    for start, scores in score_blocks(queries, passages, similarity):
        for row, passage in enumerate(excluded[start : start + len(scores)] if excluded else ()):
            if passage >= 0:
                scores[row, passage] = -torch.inf
        top = largest(scores, min(depth, len(passages)))
        tops.append(top.where(scores.gather(1, top) > -torch.inf, -1))
    first = torch.cat(tops).cpu().numpy()
    grades = grades or [[1.0] * len(own) for own in relevant]
    graded = [dict(zip(*both, strict=True)) for both in zip(relevant, grades, strict=True)]
    gains = np.array(
        [[own.get(n, 0.0) for n in top] for top, own in zip(first.tolist(), graded, strict=True)]
    )
    hits = (gains > 0).astype(np.float64)
    counts, ranks = np.array([len(own) for own in relevant]), np.arange(1, first.shape[1] + 1)
    best = [-np.sort(-np.asarray(own, np.float64)) for own in grades]
    figures = {
        "ndcg_at_10": np.array([ndcg(*both) for both in zip(gains, best, strict=True)]),
        "mrr_at_10": (hits / ranks)[:, :DEPTH].max(1),
        "recall_at_10": hits[:, :DEPTH].sum(1) / counts,
    }
    if depth == DEEP:
        figures["map_at_100"] = (hits * hits.cumsum(1) / ranks).sum(1) / counts
        figures["recall_at_100"] = hits.sum(1) / counts
    return Ranking(first, figures)
