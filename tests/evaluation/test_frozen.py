"""Linear probes, neighbours and ranks of frozen features, against scikit-learn."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import ndcg_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from tiryns.runner.evaluation import classifiers
from tiryns.runner.evaluation.classifiers import (
    NUMBERS,
    PENALTIES,
    LinearProbe,
    Neighbours,
    fit_neighbours,
    fit_probe,
)
from tiryns.runner.evaluation.ranks import cosines, rank

CLASSES = 4


def drawn(seed: int, count: int) -> tuple[Tensor, Tensor]:
    """Features [D, 8] of four classes that overlap, of different scales, one of them constant; and the classes."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=generator)
    centres = torch.randn(CLASSES, 8, generator=torch.Generator().manual_seed(9))
    features = centres[labels] + torch.randn(count, 8, generator=generator)
    features = features * torch.tensor([1, 100, 0.01, 1, 1, 1, 1, 0.0]) + 5
    return features, labels


@pytest.mark.rows(2)
@pytest.mark.parametrize("penalty", PENALTIES)
def test_probe_is_scikit_learns_regression(penalty: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classifiers, "SMALLEST_GRADIENT", 1e-9)
    (features, labels), (others, _) = drawn(0, 120), drawn(1, 60)
    probe = fit_probe(features, labels, CLASSES, lambda one: float(one.penalty == penalty))
    assert probe.penalty == penalty
    scaler = StandardScaler().fit(features.double().numpy())
    theirs = LogisticRegression(C=1 / (penalty * len(labels)), tol=1e-10, max_iter=10_000)
    theirs.fit(scaler.transform(features.double().numpy()), labels.numpy())
    expected = theirs.predict_proba(scaler.transform(others.double().numpy()))
    np.testing.assert_allclose(probe.logits(others).softmax(1).numpy(), expected, atol=2e-5)


def test_penalty_is_the_best_on_validation_and_the_strongest_of_equal_ones() -> None:
    features, labels = drawn(0, 60)
    others, truth = drawn(1, 200)
    tried: dict[float, float] = {}

    def accuracy(probe: LinearProbe) -> float:
        tried[probe.penalty] = float((probe.logits(others).argmax(1) == truth).double().mean())
        return tried[probe.penalty]

    found = fit_probe(features, labels, CLASSES, accuracy)
    assert [*tried] == [*PENALTIES]
    assert tried[found.penalty] == max(tried.values()) > min(tried.values())
    assert fit_probe(features, labels, CLASSES, lambda _: 0.5).penalty == max(PENALTIES)


@pytest.mark.parametrize("number", NUMBERS)
def test_neighbours_are_scikit_learns(number: int) -> None:
    (features, labels), (others, _) = drawn(0, 120), drawn(1, 60)
    found = fit_neighbours(features, labels, CLASSES, lambda one: float(one.number == number))
    theirs = KNeighborsClassifier(number, metric="cosine").fit(features.double().numpy(), labels.numpy())
    votes = found.votes(others)
    np.testing.assert_allclose(votes.numpy() / number, theirs.predict_proba(others.double().numpy()))
    assert votes.argmax(1).tolist() == theirs.predict(others.double().numpy()).tolist()


def test_no_more_neighbours_than_examples_are_tried_and_of_equal_numbers_the_smallest_is_chosen() -> None:
    features, labels = drawn(0, 4)
    tried: list[int] = []

    def accuracy(neighbours: Neighbours) -> float:
        tried.append(neighbours.number)
        return 0.5

    assert fit_neighbours(features, labels, CLASSES, accuracy).number == 1
    assert tried == [1, 3]


def test_ranks_have_scikit_learns_ndcg_and_figures_by_hand() -> None:
    generator = torch.Generator().manual_seed(0)
    queries, passages = (torch.randn(size, 6, generator=generator) for size in (20, 35))
    relevant = [sorted({i, (3 * i) % 35, (7 * i + 1) % 35}) for i in range(20)]
    truth = np.zeros((20, 35))
    for query, own in enumerate(relevant):
        truth[query, own] = 1
    scores = np.array([cosines(query.expand_as(passages), passages).numpy() for query in queries])
    found = rank(queries, passages, relevant).figures
    for query in range(20):
        first = np.argsort(-scores[query])[:10].tolist()
        places = [first.index(passage) + 1 for passage in relevant[query] if passage in first]
        assert found["mrr_at_10"][query] == (1 / min(places) if places else 0)
        assert found["recall_at_10"][query] == len(places) / len(relevant[query])
        expected = ndcg_score(truth[query : query + 1], scores[query : query + 1], k=10)
        assert found["ndcg_at_10"][query] == pytest.approx(expected, abs=1e-12)
    assert 0 < found["ndcg_at_10"].mean() < 1


def test_ranks_among_fewer_passages_than_count() -> None:
    found = rank(torch.eye(3), torch.eye(3), [[0], [1], [0, 2]])
    assert found.first.shape == (3, 3)
    assert found.figures["recall_at_10"].tolist() == [1.0, 1.0, 1.0]
    assert found.figures["mrr_at_10"].tolist() == [1.0, 1.0, 1.0]
