"""Figures of ranked candidates by scikit-learn and by every order of equal scores."""

from collections.abc import Sequence
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, ndcg_score

from tests.data.pairs.test_pairs import prepared
from tiryns.runner.evaluation.kinds.vectors import Retrieved
from tiryns.runner.evaluation.metrics import get_metrics_for_task
from tiryns.runner.evaluation.ranks import TiedRanks
from tiryns.runner.objectives import ContrastiveCollator

DRAW = np.random.default_rng(3)


def figures(scores: Any, grades: Any) -> tuple[float, float, float]:
    found = TiedRanks.of(scores, grades)
    return found.ndcg(), found.reciprocal_rank(), found.average_precision()


def by_every_order(scores: Sequence[float], grades: Sequence[float]) -> list[float]:
    """The mean of nDCG, reciprocal rank and average precision over all orders in which no score is above one before."""
    found = []
    for order in permutations(range(len(scores))):
        if all(scores[a] >= scores[b] for a, b in pairwise(order)):
            sorted_grades = [grades[i] for i in order]
            discounts = [1 / np.log2(rank + 2) for rank in range(len(order))][:10]
            gained = sum(g * d for g, d in zip(sorted_grades, discounts, strict=False))
            ideal = sum(g * d for g, d in zip(sorted(grades)[::-1], discounts, strict=False))
            ranks = [rank for rank, grade in enumerate(sorted_grades, 1) if grade > 0]
            precision = [number / rank for number, rank in enumerate(ranks, 1)]
            found.append([gained / ideal, 1 / ranks[0], sum(precision) / len(ranks)])
    return np.mean(found, 0).tolist()


def test_figures_are_those_of_scikit_learn() -> None:
    for _ in range(50):
        size = int(DRAW.integers(2, 30))
        scores, grades = DRAW.normal(size=size), DRAW.integers(0, 4, size).astype(float)
        grades[DRAW.integers(size)] = 2.0
        ndcg, reciprocal, precision = figures(scores, grades)
        assert ndcg == pytest.approx(ndcg_score([grades], [scores], k=10), abs=1e-12)
        assert precision == pytest.approx(average_precision_score(grades > 0, scores), abs=1e-12)
        rank = 1 + int(np.argmax(grades[np.argsort(-scores)] > 0))
        assert reciprocal == pytest.approx(1 / rank if rank <= 10 else 0.0)
        rounded = scores.round()  # many are equal, for which nDCG is defined there
        assert figures(rounded, grades)[0] == pytest.approx(ndcg_score([grades], [rounded], k=10), abs=1e-12)


@pytest.mark.parametrize("size", [2, 4, 6])
def test_equal_scores_have_the_mean_of_all_orders(size: int) -> None:
    for _ in range(8):
        scores, grades = DRAW.integers(0, 3, size).astype(float), DRAW.integers(0, 3, size).astype(float)
        grades[0] = 1.0
        assert figures(scores, grades) == pytest.approx(by_every_order(scores.tolist(), grades.tolist()))
    assert figures(np.zeros(size), grades) == pytest.approx(by_every_order([0.0] * size, grades.tolist()))


def test_ranks_below_ten_do_not_count_but_for_average_precision() -> None:
    scores, grades = -np.arange(12.0), np.eye(12)[10]
    assert figures(scores, grades) == (0.0, 0.0, pytest.approx(1 / 11))
    # at random each of twelve ranks is as likely
    chance = figures(np.zeros(12), grades)
    assert chance[1] == pytest.approx(sum(1 / rank for rank in range(1, 11)) / 12)
    assert chance[2] == pytest.approx(sum(1 / rank for rank in range(1, 13)) / 12)


def test_metrics_are_means_over_lists() -> None:
    lists = [
        ([0.3, 0.1, 0.2], [0.0, 1.0, 2.0]),
        ([0.3, 0.4], [1.0, 0.0]),
        ([3.0, 1.0, 2.0, 4.0], [1.0, 1.0, 0.0, 0.0]),
    ]
    expected = np.mean([figures(*one) for one in lists], 0)
    metrics = get_metrics_for_task("ranking")
    assert list(metrics) == ["ndcg_at_10", "mrr_at_10", "map"]
    for metric, value in zip(metrics.values(), expected, strict=True):
        metric.update(*zip(*lists, strict=True))
        assert float(metric.compute()) == pytest.approx(value)


def retrieved(rows: Any, vectors: Any, **fields: Any) -> dict[str, float]:
    """The metrics of pairs of which the first ones have vectors."""
    found, count = Retrieved(prepared(rows, **fields).train_set, ContrastiveCollator(0, 4, 50)), len(vectors)
    output = {"rows": torch.tensor(vectors), "temperature": torch.full((count,), 0.05)}
    found.add({"samples": torch.arange(count)}, output)
    found.join(lambda mine: [mine])
    return found.measure()


def test_neither_passages_that_are_no_negatives_nor_rows_that_are_not_validated_have_a_part() -> None:
    vectors = {"a": [1.0, 0.0, 0.0], "b": [0.9, 0.4, 0.0], "c": [0.8, 0.5, 0.3], "d": [0.0, 0.1, 0.9]}
    rows = [dict(zip(("query", "passage", "article"), texts, strict=True)) for texts in ("abx", "bay", "cdx")]
    every = [[vectors[row["query"]], vectors[row["passage"]]] for row in rows]
    assert retrieved(rows, every)["mrr_at_10"] == pytest.approx((1 + 1 + 1 / 3) / 3)
    assert retrieved(rows, every, match_column="article")["mrr_at_10"] == pytest.approx((1 + 1 + 1 / 2) / 3)
    assert retrieved(rows, every[:2]) == pytest.approx(retrieved(rows[:2], every[:2]))
