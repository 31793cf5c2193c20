"""Gradients of a table by row are those that torch makes of the whole table, step after step."""

from collections.abc import Callable
from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn

from tiryns.runner.models.quick.gradients import Embedding, quick_gradients, replace_embeddings
from tiryns.runner.optim import get_optimizer

BATCHES = [[[1, 2, 2], [5, 0, 1]], [[3, 3, 3], [0, 7, 4]], [[1, 1, 6], [2, 0, 0]]]


class Net(nn.Module):
    """A table, and a head that may share its weights."""

    def __init__(self, tied: bool, padding: int | None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.head = nn.Embedding(9, 4, padding_idx=padding), nn.Linear(4, 9)
        if tied:
            self.head.weight = self.table.weight

    def forward(self, numbers: Tensor) -> Tensor:
        return self.head(self.table(numbers).tanh()).square().sum()


Extra = Callable[[Net, int], Tensor | float]


def trained(quick: bool, tied: bool, padding: int | None, extra: Extra = lambda *_: 0.0) -> list[Tensor]:
    """The gradients of the table in three steps, with two micro-batches in the second, and its weights at the end."""
    net, found = Net(tied, padding), []
    if quick:
        replace_embeddings(net)
        assert type(net.table) is Embedding
    optimizer = get_optimizer("lars", net, {"lr": 0.1})  # computes in the gradients
    for step, numbers in enumerate(BATCHES):
        for _ in range(2 if step == 1 else 1):
            with quick_gradients(once=True, directly=True):
                (net(torch.tensor(numbers)) + extra(net, step)).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        assert net.table.weight.grad is not None
        found.append(net.table.weight.grad.clone())
        optimizer.step()
        optimizer.zero_grad()
    return [*found, net.table.weight.detach()]


@pytest.mark.parametrize("padding", [None, 0])
@pytest.mark.parametrize("tied", [False, True])
def test_steps_have_the_gradients_of_the_whole_table(tied: bool, padding: int | None) -> None:
    torch.testing.assert_close(trained(True, tied, padding), trained(False, tied, padding))


@pytest.mark.parametrize("when", [0, 1, 2])
def test_a_gradient_that_autograd_adds_is_not_taken_for_rows(when: int) -> None:
    def extra(net: Net, step: int) -> Tensor | float:
        return net.table.weight.sin().sum() if step == when else 0.0

    torch.testing.assert_close(trained(True, False, None, extra), trained(False, False, None, extra))


def test_the_gradient_is_made_once_and_taken_again() -> None:
    net, places = Net(False, None), set()
    replace_embeddings(net)
    for numbers in BATCHES:
        with quick_gradients(once=True, directly=True):
            net(torch.tensor(numbers)).backward()
        assert net.table.weight.grad is not None
        places.add(net.table.weight.grad.data_ptr())
        used = torch.zeros(9, dtype=torch.bool).index_fill(0, torch.tensor(numbers).flatten(), True)
        assert not net.table.weight.grad[~used].any(), "rows of other steps are zero"
        net.zero_grad()
    assert len(places) == 1


def test_modules_that_share_a_table_share_its_gradient() -> None:
    def gradients(quick: bool) -> list[Tensor]:
        one, other, found = nn.Embedding(9, 4), nn.Embedding(9, 4), []
        other.weight, net = one.weight, nn.ModuleList([one, other])
        if quick:
            replace_embeddings(net)
        for numbers in BATCHES:
            first, second = torch.tensor(numbers)
            with quick_gradients(once=True, directly=True):
                (one(first).sum() + 2 * other(second).sum()).backward()
            assert one.weight.grad is not None
            found.append(one.weight.grad.clone())
            net.zero_grad()
        return found

    torch.testing.assert_close(gradients(True), gradients(False))


def test_a_copy_has_a_gradient_of_its_own() -> None:
    net = Net(False, None)
    replace_embeddings(net)
    with quick_gradients(once=True, directly=True):
        net(torch.tensor(BATCHES[0])).backward()
    copied = deepcopy(net).table
    with quick_gradients(once=True, directly=True):
        copied(torch.tensor([8])).sum().backward()
    assert net.table.weight.grad is not None
    assert not net.table.weight.grad[8].any()


@pytest.mark.parametrize("allowed", [(True, False), (False, True), (False, False)])
def test_without_leave_autograd_sees_the_table(allowed: tuple[bool, bool]) -> None:
    net, seen = Net(False, None), []
    replace_embeddings(net)
    net.table.weight.register_hook(lambda gradient: seen.append(gradient.shape))
    with quick_gradients(*allowed):
        net(torch.tensor(BATCHES[0])).backward()
    assert seen == [(9, 4)]


def test_tables_with_settings_of_their_own_stay_torchs() -> None:
    model = nn.ModuleList(
        [nn.Embedding(3, 2, sparse=True), nn.Embedding(3, 2, max_norm=1.0), nn.Embedding(3, 2)]
    )
    replace_embeddings(model)
    assert [type(table) for table in model] == [nn.Embedding, nn.Embedding, Embedding]
