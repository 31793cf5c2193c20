"""Vectors, loss and regulariser of a step: their formulas, those of sentence-transformers, and any cut of a batch."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.models.embedding.test_losses import Given, rows
from tests.models.tiny import tiny
from tests.modules.test_two_passes import CUTS, assert_same, model, sequences, shares, stepped
from tests.objectives.samples import VOCABULARY, collator
from tests.support import needs
from tiryns.conf.objective.contrastive import Sparse
from tiryns.runner.evaluation.similarity import DOT
from tiryns.runner.models.embedding.folder import Embedding
from tiryns.runner.models.embedding.losses import PairLoss, Pairs
from tiryns.runner.tasks import sparse
from tiryns.runner.tasks.sparse import SparseModel

HEAVY: dict[str, Any] = {
    "objective": "sparse", "query_flops_weight": 0.3, "passage_flops_weight": 0.1, "flops_warmup": 0.5,
}  # fmt: skip
"""Settings in whose step 1 of 4, in the middle of the warm-up, the regulariser counts."""


def by_hand(texts: list[Tensor], pretrained: Any) -> Tensor:
    """The vectors of texts by the model of transformers, each alone."""
    logits = [pretrained(input_ids=ids[None]).logits[0] for ids in texts]
    return torch.stack([torch.log1p(torch.relu(of_text)).max(0).values for of_text in logits])


@pytest.mark.rows(3)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("at_once", [2**25, 9 * VOCABULARY])
@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
def test_vector_is_the_maximum_of_the_activations_of_tokens(
    architecture: str, at_once: int, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sparse, "LOGITS_AT_ONCE", at_once)
    trained, plain = model(architecture, packed=packed, objective="sparse"), tiny(architecture).double()
    (batch,), (padded,) = (shares(packed=p, objective="sparse")[0]["micro_batches"] for p in (packed, False))
    rows_with_masks = zip(padded["input_ids"], padded["attention_mask"].bool(), strict=True)
    expected = by_hand([row[real] for row, real in rows_with_masks], plain)
    found = trained.vectors_of(batch)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)
    assert 0 < (found == 0).double().mean() < 1
    for of_both in zip(gradients(found, trained.pretrained), gradients(expected, plain), strict=True):
        torch.testing.assert_close(*of_both, rtol=1e-5, atol=1e-5)


def gradients(vectors: Tensor, pretrained: Any) -> list[Tensor]:
    """Those of the sum of all squares, 0 for parameters without one."""
    return list(
        torch.autograd.grad(vectors.square().sum(), list(pretrained.parameters()), materialize_grads=True)
    )


def made(loss: str = "infonce", weights: tuple[float, float] = (0.3, 0.1), **options: Any) -> SparseModel:
    """A model in training whose loss of given vectors is asked for."""
    settings = Sparse(query_flops_weight=weights[0], passage_flops_weight=weights[1])
    pair_loss = PairLoss(loss, similarity=DOT, **options)
    return SparseModel(tiny(), pair_loss, settings, Embedding("max"), 4).train()


def non_negative(negatives: int) -> Pairs:
    pairs = rows(negatives)
    return pairs._replace(vectors=pairs.vectors.detach().relu().requires_grad_())


@pytest.mark.parametrize(
    ("kind", "name"),
    [("infonce", "SparseMultipleNegativesRankingLoss"), ("margin_mse", "SparseMarginMSELoss")],
)
def test_loss_and_gradient_are_those_of_sentence_transformers(kind: str, name: str) -> None:
    theirs = needs.package("sentence_transformers.sparse_encoder.losses")
    pairs, given = non_negative(1), Given()
    inner = getattr(theirs, name)(given)
    loss = theirs.SpladeLoss(given, inner, document_regularizer_weight=0.1, query_regularizer_weight=0.3)
    labels = pairs.scores if kind == "margin_mse" else None
    columns = [{"vectors": column} for column in pairs.vectors.unbind(1)]
    expected = torch.stack(list(loss(columns, labels).values())).sum() * len(pairs.scores)
    found = made(kind).loss(pairs, torch.tensor(1.0, dtype=torch.float64))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=0)
    of_found, of_expected = (torch.autograd.grad(value, pairs.vectors)[0] for value in (found, expected))
    torch.testing.assert_close(of_found, of_expected, rtol=1e-7, atol=1e-9)


def test_each_weight_and_the_scale_count() -> None:
    pairs, temperature = non_negative(2), torch.tensor(1.0, dtype=torch.float64)
    ids = pairs.text_ids.clone()
    ids[2, 3] = 0  # a row with one hard negative less
    there = (ids != 0)[..., None]
    pairs = pairs._replace(text_ids=ids, vectors=(pairs.vectors * there).detach())
    plain = made(weights=(0.0, 0.0)).loss(pairs, temperature)
    queries, passages = pairs.vectors[:, 0], pairs.vectors[:, 1:].flatten(0, 1)
    flops = [(part.sum(0) / count).square().sum() for part, count in ((queries, 7), (passages, 20))]
    for weights, term in (((1.0, 0.0), flops[0]), ((0.0, 1.0), flops[1])):
        regularised = made(weights=weights)
        torch.testing.assert_close(regularised.loss(pairs, temperature), plain + 7 * term)
        regularised.penalty_scale = 0.25
        torch.testing.assert_close(regularised.loss(pairs, temperature), plain + 7 * term / 4)
        torch.testing.assert_close(regularised.eval().loss(pairs, temperature), plain)


@pytest.mark.rows(1)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("cut", [cut for cut in CUTS if cut != "one"])
def test_loss_and_gradient_do_not_depend_on_the_cut(
    cut: str, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = model("modernbert", dropout=0.1, packed=packed, **HEAVY)
    expected = stepped(trained, shares("one", packed, **HEAVY), monkeypatch)
    assert_same(stepped(trained, shares(cut, packed, **HEAVY), monkeypatch), expected)
    without = {**HEAVY, "query_flops_weight": 0.0}
    free = model("modernbert", dropout=0.1, packed=packed, **without)
    other = stepped(free, shares(cut, packed, **without), monkeypatch)
    assert abs(other[0] - expected[0]) > 1e-3


def test_margins_are_learnt_whatever_the_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {**HEAVY, "loss": "margin_mse", "label_column": "score"}
    samples = sequences()
    samples.scores[samples.text_counts < 3] = float("nan")
    trained = model(**settings)
    expected = stepped(trained, shares(samples=samples, **settings), monkeypatch)
    for cut in ("by rows", "two ranks"):
        assert_same(stepped(trained, shares(cut, samples=samples, **settings), monkeypatch), expected)


def test_scale_grows_with_the_square_of_the_steps_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    scale = collator("sparse", flops_warmup=0.5).penalty_scale  # type: ignore[attr-defined]
    assert [scale(share) for share in (0, 0.125, 0.25, 0.5, 0.9)] == [0, 1 / 16, 0.25, 1, 1]
    assert collator("sparse", flops_warmup=0.0).penalty_scale(0.0) == 1  # type: ignore[attr-defined]
    (batch,) = shares(**HEAVY)[0]["micro_batches"]
    assert batch["penalty_scale"] == 0.25, "step 1 of 4 of a warm-up of 2"
    losses = []
    for changes in ({"query_flops_weight": 0.0, "passage_flops_weight": 0.0}, {}, {"flops_warmup": 0.0}):
        settings = {**HEAVY, **changes}
        losses.append(stepped(model(**settings), shares("two ranks", **settings), monkeypatch)[0])
    torch.testing.assert_close(losses[2] - losses[0], 4 * (losses[1] - losses[0]))
