"""The loss of labels is what its formulas say, and what torch computes where torch knows it."""

import math

import pytest
import torch
from torch import Tensor

from tiryns.runner.models.label_loss import LabelLoss

pytestmark = pytest.mark.fp32

WEIGHTS = [0.5, 2.0, 3.0 + 2**-9]  # bf16 would round the last one


def logits(seed: int = 0) -> Tensor:
    return torch.randn(8, 3, generator=torch.Generator().manual_seed(seed)) * 3


LABELS = torch.tensor([0, 1, 2, 2, 1, -100, 0, 2])
SEVERAL = torch.tensor(
    [[0, 1, 1], [1, 0, 0], [0, 0, 0], [1, 1, 1], [0, 1, 0], [1, 0, 1], [0, 0, 1], [1, 1, 0]]
).float()
SEVERAL[5] = torch.nan


def made(several: bool, weighted: bool, smoothing: float, gamma: float, r_drop: float) -> LabelLoss:
    return LabelLoss(WEIGHTS if weighted else None, smoothing, gamma, r_drop, multi_label=several).bfloat16()


def by_hand(row: list[float], label: int, w: list[float], eps: float, gamma: float) -> float:
    total = sum(map(math.exp, row))
    p = [math.exp(x) / total for x in row]
    q = [eps / 3 + (1 - eps) * (c == label) for c in range(3)]
    return sum(w[c] * q[c] * (1 - p[c]) ** gamma * -math.log(p[c]) for c in range(3))


def by_hand_of_several(
    row: list[float], holds: list[float], w: list[float], eps: float, gamma: float
) -> float:
    terms = []
    for x, y, weight in zip(row, holds, w, strict=True):
        p, q = 1 / (1 + math.exp(-x)), (1 - eps) * y + eps / 2
        terms.append(weight * q * (1 - p) ** gamma * -math.log(p) + (1 - q) * p**gamma * -math.log(1 - p))
    return sum(terms) / 3


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
def test_losses_are_those_of_the_formula(weighted: bool, smoothing: float, gamma: float) -> None:
    w = WEIGHTS if weighted else [1.0] * 3
    one = made(False, weighted, smoothing, gamma, 0)(logits, LABELS)
    rows, labels = logits().tolist(), LABELS.tolist()
    expected = [
        0.0 if y < 0 else by_hand(x, y, w, smoothing, gamma) for x, y in zip(rows, labels, strict=True)
    ]
    assert one.losses.tolist() == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert one.weights.tolist() == [0.0 if y < 0 else w[y] for y in labels]
    any_of = made(True, weighted, smoothing, gamma, 0)(logits, SEVERAL)
    holds = SEVERAL.tolist()
    expected = [by_hand_of_several(x, y, w, smoothing, gamma) for x, y in zip(rows, holds, strict=True)]
    expected[5] = 0.0
    assert any_of.losses.tolist() == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert any_of.weights.tolist() == [float(i != 5) for i in range(8)]


@pytest.mark.parametrize("several", [False, True])
def test_r_drop_adds_both_divergences_between_two_passes(several: bool) -> None:
    passes = iter((0, 1))
    labels = SEVERAL if several else LABELS
    found = made(several, True, 0.1, 1.0, 0.7)(lambda: logits(next(passes)), labels)
    first, second = (made(several, True, 0.1, 1.0, 0)(lambda s=s: logits(s), labels) for s in (0, 1))
    one: torch.distributions.Distribution
    other: torch.distributions.Distribution
    if several:
        one, other = (torch.distributions.Bernoulli(logits=logits(s)) for s in (0, 1))
    else:
        one, other = (torch.distributions.Categorical(logits=logits(s)) for s in (0, 1))
    kl = torch.distributions.kl_divergence
    apart = (kl(one, other) + kl(other, one)) / 2
    apart = apart.mean(-1) if several else apart
    expected = (first.losses + second.losses) / 2 + 0.7 * first.weights * apart
    torch.testing.assert_close(found.losses, expected)
    assert torch.equal(found.weights, first.weights)
    assert torch.equal(found.logits, logits(0))
    same = made(several, True, 0.1, 1.0, 0.7)(logits, labels)
    torch.testing.assert_close(same.losses, first.losses, msg="equal passes are not apart")


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0])
def test_certain_predictions_have_finite_gradients(several: bool, gamma: float) -> None:
    certain = torch.tensor([[200.0, -200.0, 0.0], [-200.0, 200.0, 0.0]], requires_grad=True)
    labels = torch.eye(3)[:2] if several else torch.tensor([0, 1])
    made(several, True, 0.1, gamma, 0)(lambda: certain, labels).losses.sum().backward()
    assert certain.grad is not None
    assert bool(certain.grad.isfinite().all())


def test_items_at_positions_are_those_of_the_logits_there() -> None:
    positions = torch.tensor([6, 1, 3])
    loss = made(False, True, 0.1, 2.0, 0)
    found = loss(logits, LABELS[positions], positions)
    assert torch.equal(found.losses, loss(logits, LABELS).losses[positions])
    assert found.logits.shape == (8, 3)
