"""Clipping is torch's, but reads and scales of a table the rows of the batch alone."""

import math

import pytest
import torch
from torch import Tensor, nn

from tiryns.runner.models.quick.gradients import changed_rows, clip, quick_gradients, replace_embeddings

NUMBERS = [[1, 2, 2], [5, 7, 1]]


def graded(quick: bool, tied: bool = False) -> list[nn.Parameter]:
    """The parameters of a table and a head, with the gradients of two micro-batches."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Embedding(9, 4), nn.Tanh(), nn.Linear(4, 9))
    if tied:
        net[2].weight = net[0].weight
    if quick:
        replace_embeddings(net)
    for numbers in NUMBERS:
        with quick_gradients(once=True, directly=True):
            (10 * net(torch.tensor(numbers))).square().sum().backward()
    return list(net.parameters())


def gradients(parameters: list[nn.Parameter]) -> list[Tensor]:
    """A copy of each gradient."""
    return [p.grad.clone() for p in parameters if p.grad is not None]


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("limit", [0.5, 1e9, math.inf])
def test_norm_and_gradients_are_those_of_torch(limit: float, tied: bool) -> None:
    ours, theirs = graded(True, tied), graded(False, tied)
    norm, expected = clip(ours, limit), torch.nn.utils.clip_grad_norm_(theirs, limit)
    torch.testing.assert_close(norm, expected)
    torch.testing.assert_close(gradients(ours), gradients(theirs))
    assert (limit == 0.5) == (norm > limit), "one of the limits is reached"


def test_rows_that_no_token_has_are_not_read() -> None:
    table, *others = graded(True)
    assert table.grad is not None
    rows = changed_rows(table.grad)
    assert rows is not None
    assert rows.tolist() == [1, 2, 5, 7]
    table.grad.data[3] = math.nan  # which autograd does not count as a change
    assert clip([table, *others], 0.5).isfinite()
    assert table.grad[rows].isfinite().all()
    table.grad.data[5] = math.nan
    assert clip([table, *others], 0.5).isnan()


def test_a_gradient_that_autograd_has_made_is_read_in_whole() -> None:
    for tied, quick in ((True, True), (False, False)):
        table = graded(quick, tied)[0]
        assert table.grad is not None
        assert changed_rows(table.grad) is None


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_gradients_without_a_norm_are_left_as_they_are(value: float) -> None:
    parameters = graded(True)
    parameters[1].grad = torch.full_like(parameters[1], value)
    before = gradients(parameters)
    assert not clip(parameters, 0.5).isfinite()
    torch.testing.assert_close(gradients(parameters), before, equal_nan=True)
