"""Each loss of lists and its gradient by its formula and by sentence-transformers, however a global batch is cut."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.data.labelled.tasks import rankings
from tests.objectives.labelled.test_finetuning import collated, model, parts
from tests.support import needs
from tiryns.runner.data.batches import GlobalBatches
from tiryns.runner.samplers import Sequential
from tiryns.runner.tasks.ranking.objective import LOSSES, list_losses, list_weights
from tiryns.runner.tasks.ranking.task import RankingPredictions

COUNTS = [4, 2, 3, 5]
DRAW = torch.Generator().manual_seed(7)
SCORES = [torch.randn(count, generator=DRAW, dtype=torch.float64) * 2 for count in COUNTS]
GRADES = [[2.0, 0.0, 1.0, 0.0], [0.0, 1.0], [1.0, 0.0, 0.5], [0.0, 3.0, 0.0, 0.0, 3.0]]
FLAT = [grade for grades in GRADES for grade in grades]


def laid_out(lists: Sequence[Any], fill: float) -> Tensor:
    rows = torch.full((len(lists), max(COUNTS)), fill, dtype=torch.float64)
    for number, values in enumerate(lists):
        rows[number, : len(values)] = torch.as_tensor(values)
    return rows


def ours(loss: str, grades: Sequence[Any] = GRADES) -> tuple[float, list[float]]:
    """The mean loss of the lists, and its gradient for each candidate."""
    scores = torch.cat(SCORES).requires_grad_()
    laid, given = laid_out(scores.split(COUNTS), -math.inf), laid_out(grades, math.nan)
    mean = list_losses(loss, laid, given).sum() / list_weights(loss, given).sum()
    (gradient,) = torch.autograd.grad(mean, scores)
    return mean.item(), gradient.tolist()


def by_formula(loss: str) -> float:
    terms = []
    for row, grades in zip(SCORES, GRADES, strict=True):
        scores = row.tolist()
        total = sum(map(math.exp, scores))
        pairs = [(i, j) for i, one in enumerate(grades) for j, other in enumerate(grades) if one > other]
        if loss == "listwise":
            shares = [grade / sum(grades) for grade in grades]
            terms.append(-sum(p * math.log(math.exp(s) / total) for p, s in zip(shares, scores, strict=True)))
        elif loss == "pointwise":
            for s, grade in zip(scores, grades, strict=True):
                p, target = 1 / (1 + math.exp(-s)), min(grade, 1.0)
                terms.append(-target * math.log(p) - (1 - target) * math.log(1 - p))
        elif loss == "ranknet":
            terms += [math.log(1 + math.exp(scores[j] - scores[i])) for i, j in pairs]
        else:
            terms += [(scores[i] - scores[j] - (grades[i] - grades[j])) ** 2 for i, j in pairs]
    return sum(terms) / len(terms)


@pytest.mark.parametrize("loss", LOSSES)
def test_loss_is_that_of_its_formula(loss: str) -> None:
    found, gradient = ours(loss)
    assert found == pytest.approx(by_formula(loss), abs=1e-12)
    places = [(row, place) for row in SCORES for place in range(len(row))]
    for (row, place), derivative in zip(places, gradient, strict=True):  # by differences
        sides = []
        for step in (1e-5, -1e-5):
            row[place] += step
            sides.append(by_formula(loss))
            row[place] -= step
        assert derivative == pytest.approx((sides[0] - sides[1]) / 2e-5, abs=1e-8)


def of_library(make: Callable[[Any, Any], Any], inputs: Any, labels: Any) -> tuple[float, list[float]]:
    """The loss of sentence-transformers and its gradient; `make` gets the module of losses and a model of our scores."""
    library = needs.package("sentence_transformers.cross_encoder")
    scores = torch.cat(SCORES).float().requires_grad_()

    class Scored(library.CrossEncoder):  # type: ignore[name-defined]
        device, num_labels = torch.device("cpu"), 1

        def __init__(self) -> None:
            torch.nn.Module.__init__(self)

        def preprocess(self, pairs: Any, **prompts: Any) -> Any:
            return {"candidates": [int(candidate) for _, candidate in pairs]}

        def forward(self, given: Any) -> Any:
            return {"scores": scores[given["candidates"]]}

    losses = needs.package("sentence_transformers.cross_encoder.losses")
    found = make(losses, Scored())(inputs, labels)
    (gradient,) = torch.autograd.grad(found, scores)
    return found.item(), gradient.tolist()


def names() -> list[list[str]]:
    """The number of each candidate, list by list."""
    return [list(map(str, some.tolist())) for some in torch.arange(len(FLAT)).split(COUNTS)]


def agree(found: tuple[float, list[float]], expected: tuple[float, list[float]]) -> None:
    assert found[0] == pytest.approx(expected[0], abs=1e-6)
    assert found[1] == pytest.approx(expected[1], abs=1e-6)


def test_losses_are_those_of_sentence_transformers() -> None:
    queries, grades = ["q"] * len(COUNTS), [torch.tensor(some) for some in GRADES]
    lists = [queries, names()]
    # theirs shares the mass by the softmax of the labels
    agree(ours("listwise"), of_library(lambda m, one: m.ListNetLoss(one), lists, [g.log() for g in grades]))
    natural = {"reduction_log": "natural"}
    agree(ours("ranknet"), of_library(lambda m, one: m.RankNetLoss(one, **natural), lists, grades))
    lambdas = of_library(lambda m, one: m.LambdaLoss(one, m.NoWeightingScheme(), **natural), lists, grades)
    agree(ours("ranknet"), lambdas)
    flat = [["q"] * len(FLAT), [name for some in names() for name in some]]
    targets = torch.tensor(FLAT).clamp(max=1)
    agree(ours("pointwise"), of_library(lambda m, one: m.BinaryCrossEntropyLoss(one), flat, targets))
    # theirs compares the first candidate with each other one, of equally many lists
    cut = [["q"], *([name] for name in names()[0])]
    found = of_library(lambda m, one: m.MarginMSELoss(one), cut, torch.tensor([[2.0, 0.0, 0.0, 0.0]]))
    agree(ours("margin", [[2.0, 0.0, 0.0, 0.0], *([math.nan] * count for count in COUNTS[1:])]), found)


@pytest.mark.parametrize("loss", LOSSES)
def test_lists_without_grades_and_other_lists_do_not_count(loss: str) -> None:
    unknown = [[math.nan] * 4, *GRADES[1:]]
    found, gradient = ours(loss, unknown)
    assert math.isfinite(found)
    assert gradient[:4] == [0.0] * 4
    assert any(gradient[4:])
    alone = list_losses(loss, SCORES[1][None], torch.tensor([GRADES[1]]))
    assert list_losses(loss, laid_out(SCORES, -math.inf), laid_out(GRADES, math.nan))[1] == pytest.approx(
        alone.item()
    )


@cache
def prepared(loss: str) -> tuple[Any, Any]:
    """The tokenised lists and their collator."""
    return parts("ranking", rankings(12), loss=loss)


class Cut:
    """A global batch of all lists in the shares of some ranks, with micro-batches of so many tokens."""

    def __init__(self, loss: str, ranks: int, tokens: int | None, packed: bool = False) -> None:
        sequences, collator = prepared(loss)
        made: Any = model(collator)
        self.model = made
        if packed:
            made.pack_rows()
        sampler = Sequential(sequences, global_batch_size=12, num_epochs=1, num_batches=None, seed=0)
        cut = (tokens, None, packed)
        shares = [GlobalBatches(sequences, sampler, collator, 0, 1, r, ranks, *cut)[0] for r in range(ranks)]
        self.num_micro_batches = sum(len(share["micro_batches"]) for share in shares)
        predicted, losses = [], []
        for share in shares:
            predicted.append(RankingPredictions(sequences))
            for micro_batch in share["micro_batches"]:
                output = self.model(micro_batch)
                losses.append(output["loss"])
                predicted[-1].add(micro_batch, output)
        total = torch.stack(losses).sum() / sum(share["weight"] for share in shares)
        total.backward()
        self.loss = total.item()
        every: list[Any] = []

        def gather(mine: Any) -> list[Any]:
            every.append(mine)
            return [dict(one) for one in every]

        for one in predicted:
            one.join(gather)
        self.figures = predicted[-1].metrics()


@pytest.mark.slow
@pytest.mark.fp32
@pytest.mark.rows(1)
@pytest.mark.parametrize("loss", LOSSES)
def test_ranks_and_micro_batches_do_not_show(loss: str) -> None:
    whole = Cut(loss, 1, None)
    assert whole.num_micro_batches == 1
    expected = [parameter.grad for parameter in whole.model.parameters()]
    for ranks in (1, 2, 4):
        for tokens, packed in ((60, False), (200, False), (200, True)):
            found = Cut(loss, ranks, tokens, packed)
            assert found.num_micro_batches > ranks or tokens == 200
            assert found.loss == pytest.approx(whole.loss, rel=1e-5)
            assert found.figures == pytest.approx(whole.figures, rel=1e-5)
            for parameter, gradient in zip(found.model.parameters(), expected, strict=True):
                torch.testing.assert_close(parameter.grad, gradient, atol=1e-5, rtol=1e-4)
    assert len(set(whole.figures.values())) == 3


def test_weight_counts_lists_candidates_or_pairs() -> None:
    grades = [row["label"] for row in rankings(12)]
    pairs = sum(one > other for some in grades for one in some for other in some)
    expected = {"listwise": 12, "pointwise": sum(map(len, grades)), "ranknet": pairs, "margin": pairs}
    for loss, count in expected.items():
        sequences, collator = prepared(loss)
        assert collated(sequences, collator, range(12))["weight"] == count
        assert collated(sequences, collator, range(12), filler=True)["weight"] == 0


def test_losses_differ() -> None:
    assert len({round(ours(loss)[0], 6) for loss in LOSSES}) == len(LOSSES)
    assert np.isfinite([ours(loss)[0] for loss in LOSSES]).all()
