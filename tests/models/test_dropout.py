"""Dropout: right gradients, the right share dropped, the mean kept, nothing across documents."""

import pytest
import torch
from torch import Tensor

from runner.models.dropout import Dropout, DroppedAttention, can_drop, quicken
from runner.models.packed_attention import packed_attention


def seeded(*inputs: Tensor, mask: Tensor | None = None, rate: float = 0.3) -> Tensor:
    torch.manual_seed(5)
    return DroppedAttention.apply(*inputs, mask, rate, 0.4)


@pytest.mark.parametrize("window", [False, True])
def test_gradients_agree_with_differences(window: bool) -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(2, 2, 6, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    mask = torch.full((6, 6), -torch.inf, dtype=torch.float64).triu(3) if window else None
    assert torch.autograd.gradcheck(lambda *x: seeded(*x, mask=mask), inputs)


def test_drops_the_share_and_keeps_the_mean() -> None:
    torch.manual_seed(1)
    query, key = torch.randn(1, 4, 64, 8), torch.randn(1, 4, 64, 8)
    weights = seeded(query, key, torch.eye(64).expand(1, 4, 64, 64), rate=0.3)
    plain = torch.softmax(0.4 * query @ key.transpose(-1, -2), -1)
    share = float((weights == 0).float().mean())
    assert share == pytest.approx(0.3, abs=0.015), "16,384 weights: four standard deviations"
    kept = weights != 0
    assert torch.allclose(weights[kept], plain[kept] / 0.7, rtol=1e-4)


def test_seed_decides_what_is_dropped() -> None:
    inputs = [torch.randn(1, 2, 16, 8) for _ in range(3)]
    assert torch.equal(seeded(*inputs), seeded(*inputs))
    assert not torch.equal(seeded(*inputs), DroppedAttention.apply(*inputs, None, 0.3, 0.4)), "drawn anew"


def test_packed_documents_stay_apart_with_dropout() -> None:
    torch.manual_seed(2)
    query, key, value = (torch.randn(1, 2, 9, 4) for _ in range(3))
    bounds = torch.tensor([0, 4, 9], dtype=torch.int32)

    def attend(value: Tensor) -> Tensor:
        torch.manual_seed(3)
        return packed_attention(
            torch.nn.Identity(), query, key, value, None, dropout=0.2, cu_seq_lens_q=bounds, max_length_q=5
        )[0]

    before = attend(value)
    other = value.clone()
    other[:, :, 4:] += 1
    after = attend(other)
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.equal(before[:, 4:], after[:, 4:])


@pytest.mark.parametrize(("rate", "possible"), [(0.0, False), (1e-12, False), (0.1, True), (1.0, False)])
def test_rates_too_fine_are_left_to_torch(rate: float, possible: bool) -> None:
    assert can_drop(rate, torch.zeros(1)) == possible


def test_gradients_under_autocast_are_close_to_those_without() -> None:
    torch.manual_seed(4)
    query, key, value = inputs = [torch.randn(1, 2, 9, 4, requires_grad=True) for _ in range(3)]
    bounds = torch.tensor([0, 4, 9], dtype=torch.int32)

    def gradients(enabled: bool) -> tuple[Tensor, ...]:
        torch.manual_seed(3)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            out, _ = packed_attention(
                torch.nn.Identity(),
                query,
                key,
                value,
                None,
                dropout=0.2,
                cu_seq_lens_q=bounds,
                max_length_q=5,
            )
        assert out.dtype == (torch.bfloat16 if enabled else torch.float32)
        return torch.autograd.grad(out.float().square().sum(), inputs)

    for rounded, exact in zip(gradients(True), gradients(False), strict=True):
        assert torch.allclose(rounded, exact, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_elements_are_dropped_in_training_only(dtype: torch.dtype) -> None:
    model = torch.nn.Sequential(torch.nn.Dropout(0.25))
    quicken(model)
    assert type(model[0]) is Dropout
    ones = torch.ones(100, 101, dtype=dtype, requires_grad=True)
    torch.manual_seed(0)
    out = model(ones)
    assert float((out == 0).float().mean()) == pytest.approx(0.25, abs=0.02), "4.6 standard deviations"
    assert torch.allclose(out[out != 0], torch.tensor(4 / 3, dtype=dtype))
    (gradient,) = torch.autograd.grad(out.sum(), ones)
    assert torch.equal(gradient, out.detach()), "the gradient passes where the element did"
    assert model.eval()(ones) is ones
