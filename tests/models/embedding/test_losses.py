"""Losses of pairs: the formulas, those of sentence-transformers, and what is no negative."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.support import needs
from tiryns.runner.models.embedding import losses
from tiryns.runner.models.embedding.losses import PairLoss, Pairs, false_negatives, pair_cosines, ranks

ROWS, NEGATIVES, WIDTH = 7, 2, 16
TEMPERATURE = torch.tensor(0.05, dtype=torch.float64)


def rows(negatives: int = NEGATIVES, seed: int = 0, num_rows: int = ROWS) -> Pairs:
    torch.manual_seed(seed)
    vectors = torch.randn(num_rows, 2 + negatives, WIDTH, dtype=torch.float64, requires_grad=True)
    ids = torch.arange(1, vectors[..., 0].numel() + 1).view(num_rows, -1)
    return Pairs(
        vectors, ids, torch.zeros(num_rows, dtype=torch.int64),
        torch.rand(num_rows).double().round(decimals=1),
    )  # fmt: skip


def gradient(loss: PairLoss, pairs: Pairs, temperature: Tensor = TEMPERATURE) -> tuple[Tensor, Tensor]:
    value = loss(pairs, temperature)
    (found,) = torch.autograd.grad(value, pairs.vectors)
    return value.detach(), found


def test_losses_of_scores_are_their_formulas() -> None:
    pairs = rows(0)
    cosines, scores = pair_cosines(pairs).detach(), pairs.scores
    expected = 1 + sum(
        ((cosines[i] - cosines[j]) / TEMPERATURE).exp()
        for i in range(ROWS)
        for j in range(ROWS)
        if scores[i] < scores[j]
    )
    torch.testing.assert_close(
        PairLoss("cosent")(pairs, TEMPERATURE).detach(), ROWS * torch.as_tensor(expected).log()
    )
    torch.testing.assert_close(
        PairLoss("cosine")(pairs, TEMPERATURE).detach(), ((cosines - scores) ** 2).sum()
    )


@pytest.mark.parametrize("kind", ["cosent", "cosine"])
def test_rows_without_a_score_have_no_part_in_a_loss(kind: str) -> None:
    pairs = rows(0)
    known = pairs._replace(scores=pairs.scores.index_fill(0, torch.tensor([2, 5]), torch.nan))
    found, of_found = gradient(PairLoss(kind), known)
    rest = [0, 1, 3, 4, 6]
    others = Pairs(*(part[rest].detach() for part in pairs))
    others.vectors.requires_grad_()
    expected, of_expected = gradient(PairLoss(kind), others)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(of_found[rest], of_expected)
    assert not of_found[[2, 5]].any()


def test_few_cosines_at_a_time_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    loss = PairLoss("infonce", symmetric=True, margin=0.1, dimensions=(8, 16))
    pairs = same(rows(), passages=((3, 1), (1, 1)), query=((5, 1), (2, 0)))
    whole = gradient(loss, pairs)
    monkeypatch.setattr(losses, "COSINES_AT_ONCE", 3 * ROWS * (1 + NEGATIVES))
    for found, expected in zip(gradient(loss, pairs), whole, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)


def test_dimensions_add_up_losses_of_cut_vectors() -> None:
    pairs, loss = rows(), PairLoss("infonce", dimensions=(16, 8, 3), weights=(1.0, 0.5, 0.25))
    sizes = ((16, 1), (8, 0.5), (3, 0.25))
    cut = {size: pairs._replace(vectors=pairs.vectors[..., :size]) for size, _ in sizes}
    parts = [weight * PairLoss("infonce")(cut[size], TEMPERATURE) for size, weight in sizes]
    torch.testing.assert_close(loss(pairs, TEMPERATURE), sum(parts))


class Given(nn.Module):
    """A model of sentence-transformers that returns given vectors."""

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"sentence_embedding": features["vectors"]}

    def get_sentence_embedding_dimension(self) -> int:
        return WIDTH

    get_embedding_dimension = get_sentence_embedding_dimension

    def __getitem__(self, number: int) -> nn.Module:
        return self


def of_others(name: str, pairs: Pairs, labels: Tensor | None = None, **options: Any) -> Tensor:
    """The loss of sentence-transformers, a mean over rows, times their number."""
    theirs = needs.package("sentence_transformers.sentence_transformer.losses")
    loss = getattr(theirs, name)(Given(), **options)
    features = [{"vectors": column} for column in pairs.vectors.unbind(1)]
    return loss(features, labels) * len(pairs.vectors)


RANKING: dict[str, dict[str, Any]] = {
    "MultipleNegativesRankingLoss": {},
    "CachedMultipleNegativesRankingLoss": {"mini_batch_size": 3},
}


@pytest.mark.parametrize("negatives", [0, 2])
def test_infonce_is_that_of_sentence_transformers(negatives: int) -> None:
    pairs = rows(negatives)
    both = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
    given: Any = ((False, {}), (True, both))
    for (symmetric, options), name in itertools.product(given, RANKING):
        pairs.vectors.grad = None
        expected = of_others(name, pairs, **options, **RANKING[name])
        expected.backward()
        of_expected = pairs.vectors.grad
        assert of_expected is not None
        found, of_found = gradient(PairLoss("infonce", symmetric), pairs)
        torch.testing.assert_close(found, expected.detach(), rtol=1e-9, atol=0)
        torch.testing.assert_close(of_found, of_expected, rtol=1e-7, atol=1e-9)
        assert not torch.isclose(found, gradient(PairLoss("infonce", not symmetric), pairs)[0])


def same(pairs: Pairs, **changes: tuple[tuple[int, ...], tuple[int, ...]]) -> Pairs:
    """With the id at the first place, row and column, in the place of that at the second."""
    ids = pairs.text_ids.clone()
    for to, of in changes.values():
        ids[to] = ids[of]
    return pairs._replace(text_ids=ids)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"passages": ((3, 1), (1, 1))}, {(1, 3), (3, 1)}),
        ({"queries": ((3, 0), (1, 0))}, {(1, 3), (3, 1)}),
        ({"negative": ((3, 2), (1, 1))}, {(1, ROWS + 3)}),
        ({"query": ((3, 1), (1, 0))}, {(1, 3)}),
        ({}, set()),
    ],
    ids=[
        "equal passages",
        "equal queries",
        "a hard negative equal to a passage",
        "a passage equal to a query",
        "none",
    ],
)
def test_what_belongs_to_a_query_is_no_negative_of_it(changes: Any, expected: set[tuple[int, int]]) -> None:
    found = false_negatives(same(rows(), **changes), slice(0, ROWS), backwards=False)
    assert {tuple(place) for place in found.nonzero().tolist()} == expected


def test_rows_with_one_id_are_no_negatives_of_each_other_and_zero_is_no_id() -> None:
    pairs = rows()._replace(match_ids=torch.tensor([0, 9, 0, 4, 9, 0, 0]))
    expected = [[1, 4], [4, 1]]
    assert false_negatives(pairs, slice(0, ROWS), backwards=False).nonzero().tolist() == expected
    assert false_negatives(pairs, slice(0, ROWS), backwards=True).nonzero().tolist() == expected


def test_margin_leaves_out_what_is_nearer_by_more() -> None:
    pairs = rows(0)
    cosines = nn.functional.cosine_similarity(
        pairs.vectors[:, None, 0], pairs.vectors[None, :, 1], dim=-1
    ).detach()
    own = cosines.diagonal()
    for margin in (-0.2, 0.0, 0.3, 9.0):
        kept = (cosines <= own[:, None] + margin) | torch.eye(ROWS, dtype=torch.bool)
        logits = (cosines / TEMPERATURE).masked_fill(~kept, -torch.inf)
        expected = (logits.logsumexp(1) - own / TEMPERATURE).sum()
        torch.testing.assert_close(PairLoss("infonce", margin=margin)(pairs, TEMPERATURE).detach(), expected)
        assert bool(kept.all()) == (margin == 9.0)


def test_ranks_count_the_negatives_that_are_nearer() -> None:
    pairs = same(rows(), passages=((3, 1), (1, 1)))
    units = nn.functional.normalize(pairs.vectors, dim=-1)
    left_out = false_negatives(pairs, slice(0, ROWS), backwards=False)
    for i, found in enumerate(ranks(pairs).tolist()):
        own = units[i, 0] @ units[i, 1]
        others = [units[i, 0] @ units[r, c] for c in range(1, 4) for r in range(ROWS)]
        assert found == 1 + sum(bool(o > own) for o, out in zip(others, left_out[i], strict=True) if not out)
