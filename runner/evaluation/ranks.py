"""Finds the ranks of relevant candidates in a list, and the ranks of a query's own passages among all passages.

A metric of a list is the mean over all orders of candidates with equal scores. So a model that gives all candidates the
same score gets the metrics of guessing (McSherry and Najork, ECIR 2008).

Letters in shapes: C candidates, R ranks, D pairs, H features, Q queries, P passages.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tiryns.runner.evaluation.similarity import COSINE, DotProduct

DEPTH = 10
"""Ranks that count for nDCG and the reciprocal rank."""

DEEP = 100
"""Ranks of `map_at_100` and `recall_at_100`."""

AT_ONCE = 1 << 24
"""Scores that are computed at a time."""

Numbers = NDArray[np.float64]
Scores = Sequence[float] | NDArray[np.floating]


def ndcg(gains: Numbers, grades: Numbers) -> float:
    """Returns the discounted cumulative gain of the first 10, divided by the best order's (Jarvelin and Kekalainen 2002).

    `gains` are the grades at each rank [R], `grades` the grades of all candidates, the largest first. The discount is
    log2(rank + 1), and gains are linear, as in trec_eval and BEIR.
    """
    dcg, ideal = (
        float(values[:DEPTH] @ (1 / np.log2(np.arange(2, len(values) + 2))[:DEPTH]))
        for values in (gains, grades)
    )
    return dcg / ideal if ideal else 0.0


class TiedRanks(NamedTuple):
    """A list of C candidates in the order of their scores; metrics are means over the orders of equal scores.

    Example:
        >>> guessed = TiedRanks.of([0.0, 0.0], [1.0, 0.0])
        >>> round(guessed.ndcg(), 4), guessed.reciprocal_rank(), guessed.average_precision()
        (0.8155, 0.75, 0.75)
    """

    grades: Numbers
    """[C], sorted, the largest first."""
    gains: Numbers
    """[C], the mean grade at each rank."""
    before: NDArray[np.int64]
    """[C], the number of candidates with a higher score than the candidate at each rank."""
    equal: NDArray[np.int64]
    """[C], the number of candidates with the same score."""
    relevant_before: NDArray[np.int64]
    """[C], the number of relevant candidates (grade above 0) with a higher score."""
    relevant: NDArray[np.int64]
    """[C], the number of relevant candidates with the same score."""

    @classmethod
    def of(cls, scores: Scores, grades: Scores) -> "TiedRanks":
        """Returns the list with these scores and grades [C]."""
        worth = np.asarray(grades, np.float64)
        _, group, sizes = np.unique(-np.asarray(scores), return_inverse=True, return_counts=True)
        relevant = np.bincount(group, worth > 0).astype(np.int64)
        gains = np.bincount(group, worth) / sizes
        of_groups = (gains, np.cumsum(sizes) - sizes, sizes, np.cumsum(relevant) - relevant, relevant)
        return cls(-np.sort(-worth), *(np.repeat(values, sizes) for values in of_groups))

    def ndcg(self) -> float:
        """See the function `ndcg`."""
        return ndcg(self.gains, self.grades)

    def reciprocal_rank(self) -> float:
        """Returns 1 / rank of the first relevant candidate, 0 if that rank is beyond 10."""
        first = int(np.argmax(self.relevant > 0))
        before, equal, relevant = self.before[first], self.equal[first], self.relevant[first]
        places = np.arange(equal - relevant + 1 if relevant else 0)
        at = relevant / (equal - places)  # that a place has the first one, if none before it has
        chances = at * np.cumprod(np.concatenate([[1.0], 1 - at[:-1]]))[: len(at)]
        ranks = before + places + 1
        return float((chances / ranks)[ranks <= DEPTH].sum())

    def average_precision(self) -> float:
        """Returns the mean, over the relevant candidates, of the precision at their ranks."""
        ranks = np.arange(1, len(self.gains) + 1)
        others = (ranks - 1 - self.before) * (self.relevant - 1) / np.maximum(self.equal - 1, 1)
        precision = (self.relevant_before + 1 + others) / ranks
        total = int(np.count_nonzero(self.grades > 0))
        return float((self.relevant / self.equal) @ precision) / max(total, 1)


def unit(features: Tensor) -> Tensor:
    """Returns features [..., H] divided by their length, float64."""
    return COSINE.prepare(features.double())


def cosines(left: Tensor, right: Tensor) -> Tensor:
    """Returns the cosine [D] of each pair of features [D, H], float64.

    Example:
        >>> cosines(torch.tensor([[3.0, 0.0]]), torch.tensor([[1.0, 1.0]])).tolist()
        [0.7071067811865475]
    """
    return (unit(left) * unit(right)).sum(-1)


def score_blocks(
    queries: Tensor, passages: Tensor, similarity: DotProduct = COSINE
) -> Iterator[tuple[int, Tensor]]:
    """Yields a block of queries at a time: the index of its first query, and its scores [queries of the block, P]."""
    query_rows, passage_rows = (similarity.prepare(vectors.double()) for vectors in (queries, passages))
    first = 0
    for block in query_rows.split(max(1, AT_ONCE // (len(passages) * similarity.products(passage_rows)))):
        yield first, similarity.matrix(block, passage_rows)
        first += len(block)


def largest(scores: Tensor, count: int) -> Tensor:
    """Returns the columns [Q, count] of each row's largest scores [Q, P], the largest first; of equal scores the first.

    Example:
        >>> largest(torch.tensor([[0.5, 0.1, 0.9, 0.5, 0.5]]), 3).tolist()
        [[2, 0, 3]]
    """
    values, columns = scores.topk(count, dim=1)
    columns = columns.sort(dim=1).values
    order = scores.gather(1, columns).sort(dim=1, descending=True, stable=True).indices
    columns = columns.gather(1, order)
    # Of scores that equal the last one, topk takes any
    has_ties = (scores >= values[:, -1:]).sum(1) > count
    columns[has_ties] = scores[has_ties].sort(dim=1, descending=True, stable=True).indices[:, :count]
    return columns


class Ranking(NamedTuple):
    """The first passages for each query."""

    first: NDArray[np.int64]
    """[Q, up to 10 or 100], indices of passages; -1 after the last passage."""
    figures: dict[str, Numbers]
    """By name, each [Q]: `ndcg_at_10`, `mrr_at_10`, `recall_at_10`; of 100 ranks also `map_at_100`, `recall_at_100`."""

    def means(self, weights: Numbers) -> dict[str, Numbers]:
        """Returns the mean of each metric [R] over queries with weights [R, Q]."""
        return {name: weights @ values / weights.sum(1) for name, values in self.figures.items()}


def rank(
    queries: Tensor,
    passages: Tensor,
    relevant: Sequence[Sequence[int]],
    grades: Sequence[Sequence[float]] | None = None,
    excluded: Sequence[Sequence[int]] | None = None,
    depth: int = DEPTH,
    similarity: DotProduct = COSINE,
) -> Ranking:
    """Ranks all passages [P, H] for each of the queries [Q, H]; `relevant` [Q] has the passages that belong to each.

    Among the first 10 it computes `ndcg` with the `grades` of relevant passages (default 1), the reciprocal rank of the
    first relevant passage, and the recall. A `depth` of 100 adds the recall among the first 100, and average precision:
    the mean precision at relevant passages' ranks (0 beyond rank 100). Of equal scores the first passage ranks higher.
    `excluded` [Q] has the indices of passages that are not ranked for the query.

    Example:
        >>> queries, passages = torch.eye(2), torch.tensor([[1.0, 0.2], [1.0, 0.1], [0.0, 1.0]])
        >>> rank(queries, passages, [[0], [2]]).figures["mrr_at_10"].tolist()
        [0.5, 1.0]
    """
    tops = []
    for start, scores in score_blocks(queries, passages, similarity):
        for row, indices in enumerate(excluded[start : start + len(scores)] if excluded else ()):
            scores[row, indices] = -torch.inf
        top = largest(scores, min(depth, len(passages)))
        tops.append(top.where(scores.gather(1, top) > -torch.inf, -1))
    first = torch.cat(tops).cpu().numpy()
    grades = grades or [[1.0] * len(indices) for indices in relevant]
    lookups = [dict(zip(*both, strict=True)) for both in zip(relevant, grades, strict=True)]
    gains = np.array(
        [[grade_of.get(n, 0.0) for n in top] for top, grade_of in zip(first.tolist(), lookups, strict=True)]
    )
    hits = (gains > 0).astype(np.float64)
    counts, ranks = np.array([len(indices) for indices in relevant]), np.arange(1, first.shape[1] + 1)
    best = [-np.sort(-np.asarray(query_grades, np.float64)) for query_grades in grades]
    figures = {
        "ndcg_at_10": np.array([ndcg(*both) for both in zip(gains, best, strict=True)]),
        "mrr_at_10": (hits / ranks)[:, :DEPTH].max(1),
        "recall_at_10": hits[:, :DEPTH].sum(1) / counts,
    }
    if depth == DEEP:
        figures["map_at_100"] = (hits * hits.cumsum(1) / ranks).sum(1) / counts
        figures["recall_at_100"] = hits.sum(1) / counts
    return Ranking(first, figures)
