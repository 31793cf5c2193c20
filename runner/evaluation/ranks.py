"""How far up the relevant candidates of a list stand, the mean over all orders of candidates with equal scores.

So a model that tells nothing has the figures of guessing (McSherry and Najork, ECIR 2008).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

DEPTH = 10
"""Ranks that count for nDCG and the reciprocal rank."""

Numbers = NDArray[np.float64]
Scores = Sequence[float] | NDArray[np.floating]


def ndcg(gains: Numbers, grades: Numbers) -> float:
    """The discounted cumulative gain of the first 10 by that of the best order (Jarvelin and Kekalainen 2002).

    `gains` are the grades at each rank [R], `grades` those of all candidates, the largest first. The discount is
    log2(rank + 1), and gains are linear, as in trec_eval and BEIR.
    """
    own, ideal = (
        float(values[:DEPTH] @ (1 / np.log2(np.arange(2, len(values) + 2))[:DEPTH]))
        for values in (gains, grades)
    )
    return own / ideal if ideal else 0.0


class TiedRanks(NamedTuple):
    """A list of C candidates in the order of their scores, of which those with equal scores share what they are.

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
    """[C], the candidates with a higher score than that at each rank."""
    equal: NDArray[np.int64]
    """[C], those with its score."""
    relevant_before: NDArray[np.int64]
    """[C], the relevant ones with a higher score, whose grades are above 0."""
    relevant: NDArray[np.int64]
    """[C], those with its score."""

    @classmethod
    def of(cls, scores: Scores, grades: Scores) -> "TiedRanks":
        """The list with these scores and grades [C]."""
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
        """1 by the rank of the first relevant candidate, 0 if that is below 10."""
        first = int(np.argmax(self.relevant > 0))
        before, equal, relevant = self.before[first], self.equal[first], self.relevant[first]
        places = np.arange(equal - relevant + 1 if relevant else 0)
        at = relevant / (equal - places)  # that a place has the first one, if none before it has
        chances = at * np.cumprod(np.concatenate([[1.0], 1 - at[:-1]]))[: len(at)]
        ranks = before + places + 1
        return float((chances / ranks)[ranks <= DEPTH].sum())

    def average_precision(self) -> float:
        """The mean over relevant candidates of the share of relevant ones up to each."""
        ranks = np.arange(1, len(self.gains) + 1)
        others = (ranks - 1 - self.before) * (self.relevant - 1) / np.maximum(self.equal - 1, 1)
        precision = (self.relevant_before + 1 + others) / ranks
        total = int(np.count_nonzero(self.grades > 0))
        return float((self.relevant / self.equal) @ precision) / max(total, 1)
