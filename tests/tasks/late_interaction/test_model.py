"""Token vectors, MaxSim and the losses of it: their formulas, those of sentence-transformers, and any cut of a batch."""

import string
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from tests.models.tiny import tiny
from tests.modules.test_two_passes import CUTS, assert_same, model, sequences, shares, stepped
from tests.objectives.samples import MASK, collator
from tests.support import needs
from tiryns.runner.models.embedding import losses
from tiryns.runner.models.embedding.losses import PairLoss, Pairs, ranks
from tiryns.runner.tasks import late_interaction
from tiryns.runner.tasks.late_interaction import PROJECTION, LateInteractionModel, MaxSim

LATE: dict[str, Any] = {"objective": "late_interaction", "token_dimensions": 8}
ONE = torch.tensor(1.0, dtype=torch.float64)


def texts(rows: int = 5, negatives: int = 1, longest: int = 7, seed: int = 0) -> Pairs:
    """Rows of texts of several lengths, some of whose tokens are left out."""
    torch.manual_seed(seed)
    vectors = functional.normalize(torch.randn(rows, 2 + negatives, longest, 4, dtype=torch.float64), dim=-1)
    there = torch.arange(longest) < torch.randint(2, longest, (rows, 2 + negatives, 1))
    there[:, 1:, 1] &= torch.rand(rows, 1 + negatives) < 0.5
    ids = torch.arange(1, rows * (2 + negatives) + 1).view(rows, -1)
    scores = torch.randn(rows, dtype=torch.float64)
    made = (vectors * there[..., None]).requires_grad_()
    return Pairs(made, ids, torch.zeros(rows, dtype=torch.int64), scores)


def by_hand(query: Tensor, passage: Tensor) -> Tensor:
    """MaxSim of two texts, token by token."""
    ours, theirs = (text[text.abs().sum(-1) > 0] for text in (query, passage))
    return torch.stack([torch.stack([token @ other for other in theirs]).max() for token in ours]).sum()


@pytest.mark.parametrize("at_once", [1, 2**24])
def test_maxsim_is_its_formula(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_interaction, "AT_ONCE", at_once)
    pairs, score = texts(longest=9), MaxSim()
    queries, passages = pairs.vectors[:, 0], pairs.vectors[:, 1]
    expected = torch.stack([torch.stack([by_hand(q, p) for p in passages]) for q in queries])
    torch.testing.assert_close(score.matrix(queries, passages), expected)
    torch.testing.assert_close(score.transpose(passages, queries), expected.T)
    torch.testing.assert_close(score.pairwise(queries, passages), expected.diagonal())
    assert not torch.allclose(score.matrix(passages, queries), expected.T), "it has a direction"


class Given(nn.Module):
    """A model of sentence-transformers that returns given vectors of tokens."""

    def forward(self, features: dict[str, Tensor], task: str = "") -> dict[str, Tensor]:
        vectors = features["vectors"]
        return {"token_embeddings": vectors, "attention_mask": (vectors != 0).any(-1)}


LOSSES = {
    "infonce": ("MultiVectorMultipleNegativesRankingLoss", {"scale": 2.0}),
    "margin_mse": ("MultiVectorMarginMSELoss", {}),
    "margin_kl": ("MultiVectorDistillKLDivLoss", {"temperature": 0.5}),
}


@pytest.mark.parametrize("kind", LOSSES)
def test_loss_and_gradient_are_those_of_sentence_transformers(kind: str) -> None:
    theirs = needs.package("sentence_transformers.multi_vector_encoder.losses")
    name, options = LOSSES[kind]
    pairs = texts()
    columns = [{"vectors": column} for column in pairs.vectors.unbind(1)]
    labels = {
        "margin_mse": pairs.scores,
        "margin_kl": torch.stack([pairs.scores + 3, 0 * pairs.scores + 3], 1),
    }
    expected = getattr(theirs, name)(Given(), **options)(columns, labels.get(kind)) * len(pairs.scores)
    found = PairLoss(kind, similarity=MaxSim())(pairs, ONE / 2)
    torch.testing.assert_close(found, expected.to(found), rtol=1e-6, atol=0)
    of_found, of_expected = (torch.autograd.grad(value, pairs.vectors)[0] for value in (found, expected))
    there = pairs.vectors != 0
    torch.testing.assert_close(of_found[there], of_expected[there], rtol=1e-5, atol=1e-6)


def test_rows_without_a_score_have_no_part_in_the_divergence() -> None:
    pairs, loss = texts(), PairLoss("margin_kl", similarity=MaxSim())
    some = pairs._replace(scores=pairs.scores.index_fill(0, torch.tensor([1, 3]), torch.nan))
    rest = Pairs(*(part[[0, 2, 4]] for part in pairs))
    torch.testing.assert_close(loss(some, ONE), loss(rest, ONE))
    assert loss(pairs, ONE) > loss(rest, ONE)


def test_few_products_at_a_time_change_no_loss_and_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs, loss = texts(negatives=2), PairLoss("infonce", symmetric=True, margin=0.5, similarity=MaxSim())
    whole = loss(pairs, ONE)
    (expected,) = torch.autograd.grad(whole, pairs.vectors)
    monkeypatch.setattr(losses, "COSINES_AT_ONCE", 1)
    monkeypatch.setattr(late_interaction, "AT_ONCE", 1)
    found = loss(pairs, ONE)
    torch.testing.assert_close(found, whole)
    (of_found,) = torch.autograd.grad(found, pairs.vectors)
    there = pairs.vectors != 0  # a place without a token takes no part in a model's own gradient
    torch.testing.assert_close(of_found[there], expected[there])


def test_symmetric_loss_finds_the_query_of_each_passage() -> None:
    pairs = texts(negatives=0)
    scores = torch.stack(
        [torch.stack([by_hand(q, p) for p in pairs.vectors[:, 1]]) for q in pairs.vectors[:, 0]]
    )
    own = torch.arange(5)
    both = [functional.cross_entropy(of, own, reduction="sum") for of in (scores, scores.T)]
    found = PairLoss("infonce", symmetric=True, similarity=MaxSim())(pairs, ONE)
    torch.testing.assert_close(found, (both[0] + both[1]) / 2)
    assert ranks(pairs, MaxSim()).tolist() == (1 + (scores > scores.diagonal()[:, None]).sum(1)).tolist()


@pytest.mark.rows(2)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
def test_each_token_has_a_vector_and_skipped_ones_of_passages_have_none(
    architecture: str, packed: bool
) -> None:
    trained, plain = model(architecture, packed=packed, **LATE), tiny(architecture).double()
    assert isinstance(trained, LateInteractionModel)
    (batch,), (padded,) = (shares(packed=p, **LATE)[0]["micro_batches"] for p in (packed, False))
    ids, mask = padded["input_ids"], padded["attention_mask"].bool()
    trained.skiplist = {".": int(ids[1, 1]), ",": int(ids[0, 1])}  # of a passage, and of a query
    found = trained.vectors_of(batch)
    assert found.shape == (len(ids), 64, 8)
    for text, (row, real) in enumerate(zip(ids, mask, strict=True)):
        expected = functional.normalize(trained.projection(plain.base_model(row[real][None])[0][0]), dim=-1)
        if batch["text_columns"][text] > 0:
            expected = expected * ~torch.isin(row[real], torch.tensor([*trained.skiplist.values()]))[:, None]
        torch.testing.assert_close(found[text, : real.sum()], expected, rtol=1e-6, atol=1e-7)
        assert not found[text, real.sum() :].any()
    assert found[0, 1].any()
    assert not found[1, 1].any()


CASES: dict[str, dict[str, Any]] = {
    "infonce": {"symmetric": True, "learn_temperature": True},
    "expanded": {"query_expansion": 20},
    "margin_mse": {"loss": "margin_mse", "label_column": "score"},
    "margin_kl": {"loss": "margin_kl", "label_column": "score", "temperature": 0.7},
}


@pytest.mark.rows(1)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("cut", [cut for cut in CUTS if cut != "one"])
@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradient_do_not_depend_on_the_cut(
    case: str, cut: str, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, samples = {**LATE, **CASES[case]}, sequences()
    if "margin" in case:
        samples.scores[samples.text_counts < 3] = float("nan")
    trained = model("modernbert", dropout=0.1, packed=packed, **settings)
    expected = stepped(trained, shares("one", packed, samples, **settings), monkeypatch)
    assert_same(stepped(trained, shares(cut, packed, samples, **settings), monkeypatch), expected)
    assert expected[1]["projection.weight"].any()


def test_queries_are_filled_up_with_mask_tokens() -> None:
    settings: dict[str, Any] = {**LATE, "query_expansion": 10}
    (plain,), (expanded,) = (shares(**given)[0]["micro_batches"] for given in (LATE, settings))
    for text, column in enumerate(plain["text_columns"].tolist()):
        before, after = (b["input_ids"][text][b["attention_mask"][text] == 1] for b in (plain, expanded))
        fill = max(0, 10 - len(before)) if column == 0 else 0
        assert after.tolist() == [*before.tolist(), *[MASK] * fill]
    assert plain["sample_keys"].equal(expanded["sample_keys"])


class Vocabulary:
    """A tokenizer that knows two marks."""

    def get_vocab(self) -> dict[str, int]:
        return {"a": 7, ".": 8, "!": 9, "..": 10}


def test_marks_of_the_vocabulary_are_skipped_unless_told_otherwise() -> None:
    made = [collator("late_interaction", tokenizer=Vocabulary(), skip_punctuation=on) for on in (True, False)]
    assert [one.skiplist for one in made] == [{"!": 9, ".": 8}, {}]  # type: ignore[attr-defined]
    assert {"!", "."} < {*string.punctuation}


def test_projection_of_the_folder_is_kept_and_another_width_refused(tmp_path: Path) -> None:
    pretrained = tiny()
    pretrained.save_pretrained(tmp_path)
    weight = torch.randn(8, 32)
    (tmp_path / PROJECTION).parent.mkdir()
    save_file({"linear.weight": weight}, tmp_path / PROJECTION)
    begun = type(pretrained).from_pretrained(tmp_path)
    kept = collator(**LATE).task_model(begun).get_parameter("projection.weight")
    assert torch.equal(kept, weight)
    with pytest.raises(
        ValueError, match=r"^objective\.token_dimensions=16: the projection of .* 8 dimensions$"
    ):
        collator("late_interaction", token_dimensions=16).task_model(begun)
