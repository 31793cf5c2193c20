"""A student of vectors: its loss from the formula, the same gradient for any cut, and margins of a teacher."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.models.embedding.test_losses import gradient, rows
from tests.models.tiny import tiny
from tests.modules.test_two_passes import Found, assert_same, model, shares, stepped
from tests.objectives.samples import collator, documents, flat
from tiryns.conf.objective.contrastive import Contrastive, check_contrastive
from tiryns.runner.models.distillation.vectors import DistilledVectors
from tiryns.runner.models.embedding.losses import PairLoss
from tiryns.runner.models.wrapped import WrappedModel

LARGER: dict[str, Any] = {"hidden_size": 48, "num_hidden_layers": 3}


def student(
    options: Contrastive, packed: bool = False, teacher_seed: int = 1, kind: str = "infonce", **sizes: Any
) -> DistilledVectors:
    """In fp64, with a teacher of other sizes."""
    plain = model(loss=kind)
    made = DistilledVectors(plain.pretrained, plain.pair_loss, options, plain.texts, 4)
    torch.manual_seed(2)
    encoder: Any = tiny("bert", teacher_seed, **sizes).base_model
    made.learn_from(WrappedModel(encoder), options)
    if packed:
        made.pack_rows()
    for module in made.modules():
        if "ropout" in type(module).__name__:
            module.__dict__["p"] = 0.0
    made.teacher.double()
    return made.double().train()


WEIGHTS = Contrastive(label_weight=0.25, teacher_weight=0.75)


def vectors_of(model: Any, batch: Any) -> list[Tensor]:
    """Each text alone, the mean of its hidden states."""
    both = zip(batch["input_ids"], batch["attention_mask"], strict=True)
    return [model.base_model(input_ids=row[mask == 1][None])[0][0].mean(0) for row, mask in both]


@pytest.mark.fp32
def test_loss_and_gradient_are_those_of_the_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    made, (share,) = student(WEIGHTS, **LARGER), shares()
    (batch,) = share["micro_batches"]
    found = stepped(made, [share], monkeypatch)
    made.zero_grad()
    ours, theirs = (vectors_of(one.pretrained, batch) for one in (made, made.teacher))
    plain = made.pair_loss(made.rows_of(torch.stack(ours), [batch], whole_batch=False), made.temperature)
    apart = torch.zeros((), dtype=torch.float64)
    owners = batch["text_rows"].tolist()
    assert made.widen is not None
    for mine, other, owner in zip(ours, theirs, owners, strict=True):
        wide = made.widen(mine)
        apart = apart + (1 - wide @ other.detach() / wide.norm() / other.norm()) / owners.count(owner)
    expected = (0.25 * plain + 0.75 * apart) / share["weight"]
    expected.backward()
    assert_same(
        found, (expected.detach(), {n: p.grad for n, p in made.named_parameters() if p.grad is not None})
    )
    assert "widen.weight" in found[1]
    assert not any(p.requires_grad or p.grad is not None for p in made.teacher.parameters())


@pytest.mark.rows(2)
@pytest.mark.fp32
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("cut", ["by rows", "two ranks", "three ranks, with fillers"])
def test_cut_changes_no_gradient(cut: str, packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    made = student(WEIGHTS, packed, **LARGER)
    expected = stepped(made, shares("one", packed), monkeypatch)
    assert_same(stepped(made, shares(cut, packed), monkeypatch), expected)


@pytest.mark.fp32
def test_without_weight_it_is_plain_and_another_teacher_is_another_gradient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain, off = model(), student(Contrastive(label_weight=1.0, teacher_weight=0.0))
    for cut in ("one", "by rows"):
        found, expected = (stepped(one, shares(cut), monkeypatch) for one in (off, plain))
        assert found[0].equal(expected[0])
        assert found[1].keys() == expected[1].keys()
        assert all(found[1][name].equal(expected[1][name]) for name in expected[1])
    first, second = (stepped(student(WEIGHTS, teacher_seed=n), shares(), monkeypatch) for n in (1, 2))
    assert distance(first, second) > 0.01
    assert student(WEIGHTS).state_dict().keys() == plain.state_dict().keys(), (
        "of equal widths nothing is added"
    )
    batch = shares()[0]["micro_batches"][0]
    assert student(WEIGHTS).eval()(batch)["loss"].equal(model().eval()(batch)["loss"]), (
        "measured on pairs alone"
    )


def distance(first: Found, second: Found) -> float:
    ours, theirs = (torch.cat([g.flatten() for g in found[1].values()]) for found in (first, second))
    return float((ours - theirs).norm() / ours.norm())


@pytest.mark.fp32
def test_rows_without_a_score_learn_nothing_from_a_teacher_either(monkeypatch: pytest.MonkeyPatch) -> None:
    made, given = student(WEIGHTS, kind="cosine"), shares(loss="cosine", label_column="score")
    (batch,) = given[0]["micro_batches"]
    batch["scores"][:] = torch.nan
    assert float(stepped(made, given, monkeypatch)[0]) == 0


@pytest.mark.fp32
def test_margin_mse_is_its_formula() -> None:
    pairs = rows(negatives=1)
    expected = sum(
        (v[0] @ v[1] - v[0] @ v[2] - score) ** 2 for v, score in zip(pairs.vectors, pairs.scores, strict=True)
    )
    (of_expected,) = torch.autograd.grad(expected, pairs.vectors)
    found, of_found = gradient(PairLoss("margin_mse"), pairs)
    torch.testing.assert_close(found, torch.as_tensor(expected).detach(), rtol=1e-12, atol=0)
    torch.testing.assert_close(of_found, of_expected, rtol=1e-9, atol=1e-12)
    unknown = pairs._replace(scores=pairs.scores.index_fill(0, torch.tensor([2, 5]), torch.nan))
    _, of_some = gradient(PairLoss("margin_mse"), unknown)
    assert not of_some[[2, 5]].any()
    torch.testing.assert_close(of_some[[0, 1, 3]], of_expected[[0, 1, 3]])


def test_margins_need_scores_and_negatives() -> None:
    fields = {"loss": "margin_mse", "label_column": "margin"}
    with pytest.raises(ValueError, match=r"objective.loss=margin_mse .*set data.label_column"):
        collator("contrastive", loss="margin_mse", texts_per_row=3)
    with pytest.raises(ValueError, match=r"objective.loss=margin_mse .*data.negative_columns"):
        collator("contrastive", **fields)
    make = collator("contrastive", texts_per_row=3, **fields)
    settings = {name: getattr(make.options, name) for name in make.built_with}
    check_contrastive(settings, "margin", has_negatives=True)
    row: Any = {
        "text_counts": torch.tensor([2]).numpy(), "text_lengths": torch.tensor([3, 2]).numpy(),
        "scores": torch.tensor([0.5]).numpy(),
    }  # fmt: skip
    with pytest.raises(ValueError, match=r"a row has a margin of .* and no hard negative"):
        make({**flat(documents([5])), **row})
