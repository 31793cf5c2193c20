"""Attention with dropout: right gradients, the right share dropped, the mean kept, and none across documents."""

import pytest
import torch
from torch import Tensor

from runner.models.attention_dropout import DroppedAttention, can_drop
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
    assert can_drop(rate) == possible
