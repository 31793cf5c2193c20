"""Dropout: right gradients, the right share dropped, the mean kept, nothing across documents."""

from itertools import accumulate

import pytest
import torch
from torch import Tensor

from tests.support.precision import in_fp32
from tiryns.runner.models.packed.attention import packed_attention
from tiryns.runner.models.packed.documents import Options, buckets
from tiryns.runner.models.packed.dropout import Dropout, DroppedAttention, can_drop, replace_dropout


def bounds_of(*lengths: int) -> Tensor:
    return torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)


def seeded(
    inputs: list[Tensor], bounds: Tensor, before: int = -1, behind: int = -1, rate: float = 0.3
) -> Tensor:
    torch.manual_seed(5)
    return DroppedAttention.apply(*inputs, bounds, Options((before, behind), 0.4, rate))


LENGTHS = {"alike": (3, 3), "padded": (2, 4, 1), "buckets": (4, 66, 5, 66)}


@pytest.mark.rows(1)
@pytest.mark.parametrize("sides", [(-1, -1), (1, 1), (-1, 0)])
@pytest.mark.parametrize("lengths", ["alike", "padded"])
def test_gradients_agree_with_differences(lengths: str, sides: tuple[int, int]) -> None:
    torch.manual_seed(0)
    bounds = bounds_of(*LENGTHS[lengths])
    inputs = [torch.randn(int(bounds[-1]), 2, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    assert torch.autograd.gradcheck(lambda *x: seeded([*x], bounds, *sides), inputs)


@pytest.mark.parametrize("sides", [(-1, -1), (2, 2), (-1, 0)])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_without_a_drop_it_is_the_attention_of_each_document(
    lengths: tuple[int, ...], sides: tuple[int, int]
) -> None:
    torch.manual_seed(6)
    inputs = [torch.randn(sum(lengths), 2, 4, requires_grad=True) for _ in range(3)]
    found = seeded(inputs, bounds_of(*lengths), *sides, rate=1e-5)
    parts = []
    for q, k, v in zip(*(x.split(lengths) for x in inputs), strict=True):
        ahead = torch.arange(len(q)) - torch.arange(len(q))[:, None]
        seen = torch.ones(len(q), len(q), dtype=torch.bool)
        for side, far in zip(sides, (-ahead, ahead), strict=True):
            seen &= (far <= side) if side >= 0 else seen
        q, k, v = (x.transpose(0, 1) for x in (q, k, v))
        with in_fp32():
            out = torch.nn.functional.scaled_dot_product_attention(q, k, v, seen, scale=0.4)
        parts.append(out.transpose(0, 1))
    expected = torch.cat(parts)
    assert torch.allclose(found, expected, atol=2e-5)
    weights = torch.randn_like(expected)
    gradients = torch.autograd.grad((found * weights).sum(), inputs)
    with in_fp32():
        references = torch.autograd.grad((expected * weights).sum(), inputs)
    for ours, theirs in zip(gradients, references, strict=True):
        assert torch.allclose(ours, theirs, atol=5e-5)


def test_documents_of_like_lengths_share_a_bucket() -> None:
    found = buckets((0, 4, 70, 75, 141, 143), 2).parts
    assert [bucket.shape for bucket in found] == [(2 * 2, 66), (3 * 2, 5)]
    assert buckets((0, 30, 60), 2).parts[0].unseen is None
    assert buckets((0, 0, 3), 2).parts[0].shape == (2, 3), "an empty document has no place"


def test_drops_the_share_and_keeps_the_mean() -> None:
    torch.manual_seed(1)
    query, key = torch.randn(64, 4, 8), torch.randn(64, 4, 8)
    value = torch.eye(64)[:, None].expand(64, 4, 64)
    weights = seeded([query, key, value], bounds_of(64)).transpose(0, 1)
    with in_fp32():
        plain = torch.softmax(0.4 * query.transpose(0, 1) @ key.permute(1, 2, 0), -1)
    share = float((weights == 0).float().mean())
    assert share == pytest.approx(0.3, abs=0.015), "16,384 weights: four standard deviations"
    kept = weights != 0
    assert torch.allclose(weights[kept], plain[kept] / 0.7, rtol=1e-4)


def test_seed_decides_what_is_dropped() -> None:
    inputs, bounds = [torch.randn(16, 2, 8) for _ in range(3)], bounds_of(16)
    assert torch.equal(seeded(inputs, bounds), seeded(inputs, bounds))
    assert not torch.equal(
        seeded(inputs, bounds), DroppedAttention.apply(*inputs, bounds, Options((-1, -1), 0.4, 0.3))
    )


@pytest.mark.parametrize(("rate", "possible"), [(0.0, False), (1e-12, False), (0.1, True), (1.0, False)])
def test_rates_too_fine_are_left_to_torch(rate: float, possible: bool) -> None:
    assert can_drop(rate, torch.zeros(1)) == possible


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("lengths", [(16, 16, 16), (9, 16, 3, 12)], ids=["alike", "ragged"])
def test_gradients_within_autocast_are_those_of_fp32(lengths: tuple[int, ...], dropout: float) -> None:
    """Of inputs and a gradient that fit bf16, taken inside autocast as in a training step; rounded once, at the end."""
    torch.manual_seed(4)
    shape = (1, 2, sum(lengths), 8)
    query, key, value = (torch.randn(shape).bfloat16().float().requires_grad_() for _ in range(3))
    arriving = torch.randn(1, sum(lengths), 2, 8).bfloat16()

    def gradients(enabled: bool) -> tuple[Tensor, ...]:
        torch.manual_seed(3)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            out, _ = packed_attention(
                torch.nn.Identity(), query, key, value, None, dropout=dropout, cu_seq_lens_q=bounds_of(*lengths),
                max_length_q=max(lengths),
            )  # fmt: skip
            assert out.dtype == (torch.bfloat16 if enabled else torch.float32)
            return torch.autograd.grad(out, (query, key, value), arriving.to(out.dtype))

    for found, exact in zip(gradients(True), gradients(False), strict=True):
        assert torch.equal(found, exact.bfloat16().float())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_elements_are_dropped_in_training_only(dtype: torch.dtype) -> None:
    model = torch.nn.Sequential(torch.nn.Dropout(0.25))
    replace_dropout(model)
    assert type(model[0]) is Dropout
    ones = torch.ones(100, 101, dtype=dtype, requires_grad=True)
    torch.manual_seed(0)
    out = model(ones)
    assert float((out == 0).float().mean()) == pytest.approx(0.25, abs=0.02), "4.6 standard deviations"
    assert torch.allclose(out[out != 0], torch.tensor(4 / 3, dtype=dtype))
    (gradient,) = torch.autograd.grad(out.sum(), ones)
    assert torch.equal(gradient, out.detach()), "the gradient passes where the element did"
    assert model.eval()(ones) is ones
