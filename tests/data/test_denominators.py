"""A loss whose parts are means over different numbers of targets, cut in any way."""

from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.data.test_module import Counted
from tiryns.runner.data.batches import GlobalBatches, figures_of, share_of, tell_totals
from tiryns.runner.data.micro_batch import FlatSamples, MicroBatch
from tiryns.runner.evaluation.totals import add_sums
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.objectives.base import FlatCollator
from tiryns.runner.objectives.rows import Places, Shape
from tiryns.runner.samplers import Shuffled

CUTS = [(1, None), (1, 1), (1, 3), (2, None), (2, 2), (3, 1)]
"""Ranks, and sequences of a micro-batch."""


class AllAndRare(FlatCollator):
    """Every token is a target; those that 7 divides count apart, and many micro-batches have none."""

    def flat_labels(self, tokenized: FlatSamples) -> FlatSamples:
        return {"input_ids": tokenized["input_ids"], "labels": tokenized["input_ids"]}

    def extra_fields(self, labelled: FlatSamples, places: Places, shape: Shape) -> MicroBatch:
        ids = labelled["labels"][labelled["labels"] >= 0]
        return {"denominators": {"rare": float(np.count_nonzero(ids % 7 == 0))}}


class TwoMeans(TaskModel):
    """The mean of a table's entries at all tokens, and twice the mean of their squares at the rare ones."""

    def __init__(self) -> None:
        super().__init__(cast(Any, None))
        self.table = torch.nn.Parameter(torch.linspace(1, 3, 50, dtype=torch.float64))

    def forward(self, micro_batch: MicroBatch) -> dict[str, Tensor]:
        tokens = micro_batch["targets"]
        rare = self.table[tokens[tokens % 7 == 0]].square().sum()
        loss = self.table[tokens].sum() + 2 * self.factor(micro_batch, "rare") * rare
        return {"loss": loss, "rare_loss": rare}


def shares(ranks: int, size: int | None) -> list[Any]:
    sequences: Any = Counted(20)
    sampler = Shuffled(sequences, num_epochs=1, num_batches=None, global_batch_size=10, seed=5)
    make = AllAndRare(0, 4, 50)
    cut = (None, size)
    return [
        GlobalBatches(sequences, sampler, make, 0, 1, r, ranks, *cut, packed=False)[0] for r in range(ranks)
    ]


def gradient(batch: list[Any], totals: dict[str, float] | None) -> Tensor:
    """As the step makes it, `totals` being the sums over the ranks; None leaves each rank with its own."""
    model = TwoMeans()
    weight = sum(share["weight"] for share in batch)
    for share in batch:
        if totals is not None:
            tell_totals(share, totals)
        for micro_batch in share["micro_batches"]:
            (model(micro_batch)["loss"] / weight).backward()
    assert model.table.grad is not None
    return model.table.grad


def added_up(batch: list[Any]) -> dict[str, float]:
    figures = [figures_of(share) for share in batch]
    return {name: sum(each[name] for each in figures) for name in figures[0]}


def expected() -> Tensor:
    """By the formula: the mean over the tokens of the global batch, and twice that over the rare ones."""
    (share,) = shares(1, None)
    tokens = share["micro_batches"][0]["targets"]
    table = TwoMeans().table
    (table[tokens].mean() + 2 * table[tokens[tokens % 7 == 0]].square().mean()).backward()
    assert table.grad is not None
    return table.grad


@pytest.mark.parametrize(("ranks", "size"), CUTS)
def test_each_part_is_a_mean_over_the_global_batch_however_it_is_cut(ranks: int, size: int | None) -> None:
    batch = shares(ranks, size)
    torch.testing.assert_close(gradient(batch, added_up(batch)), expected(), rtol=1e-12, atol=1e-15)


def test_a_loop_on_one_rank_needs_not_be_told_and_several_do() -> None:
    torch.testing.assert_close(gradient(shares(1, 3), None), expected(), rtol=1e-12, atol=1e-15)
    assert not torch.allclose(gradient(shares(3, 1), None), expected(), rtol=1e-3)


def test_a_micro_batch_alone_has_its_own_denominators_and_none_is_no_division() -> None:
    make, model = AllAndRare(0, 4, 50), TwoMeans()

    def batch(ids: list[int]) -> MicroBatch:
        flat: FlatSamples = {
            "input_ids": np.array(ids), "lengths": np.array([len(ids)]), "keys": np.array([1], np.uint64),
            "epochs": np.array([0]), "lasting_keys": np.array([1], np.uint64),
        }  # fmt: skip
        return make(flat)

    table = model.table.detach()
    mean = model(batch([7, 9, 14]))["loss"] / 3
    assert mean.item() == pytest.approx(float(table[[7, 9, 14]].mean() + 2 * table[[7, 14]].square().mean()))
    assert model(batch([9, 10]))["loss"].item() == pytest.approx(float(table[[9, 10]].sum()))
    share = share_of([batch([9, 10]), batch([9])])
    assert share["denominators"] == {"rare": 0.0}
    assert model(share["micro_batches"][0])["loss"].item() == pytest.approx(float(table[[9, 10]].sum()))


@pytest.mark.parametrize(("ranks", "size"), CUTS)
def test_a_validation_divides_each_part_by_its_own_sum(ranks: int, size: int | None) -> None:
    sums: dict[str, Tensor] = {}
    model = TwoMeans()
    for share in shares(ranks, size):
        for micro_batch in share["micro_batches"]:
            add_sums(sums, micro_batch, model(micro_batch))
    (share,) = shares(1, None)
    tokens = share["micro_batches"][0]["targets"]
    rare = model.table[tokens[tokens % 7 == 0]].square().mean()
    assert float(sums["rare_loss"] / sums["rare"]) == pytest.approx(float(rare))
    assert float(sums["weight"]) == len(tokens)
