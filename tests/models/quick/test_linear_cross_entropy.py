"""Losses in chunks of the vocabulary are those of plain cross entropy, and no logits are kept beside them."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.models.tiny import ARCHITECTURES, OWN, tiny
from tests.objectives.samples import VOCABULARY, collator, documents, flat
from tests.support.precision import as_in_training, assert_close, gradients, in_fp32, rounding
from tiryns.runner.models import SparseMaskedLM
from tiryns.runner.models.quick import linear_cross_entropy as fused
from tiryns.runner.models.quick.gradients import quick_gradients
from tiryns.runner.models.quick.linear_cross_entropy import can_fuse, linear_cross_entropy

LENGTHS = [9, 4, 12, 2]


def given(size: int, targets: int, bias: bool) -> tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor]:
    """States, weights, biases, targets and factors of a small problem; large logits among them."""
    generator = torch.Generator().manual_seed(size)
    states, weight = torch.randn(targets, 16, generator=generator), torch.randn(size, 16, generator=generator)
    biases = torch.randn(size, generator=generator).requires_grad_() if bias else None
    numbers = torch.randint(size, (targets,), generator=generator)
    factors = torch.rand(targets, generator=generator)
    return states.mul_(4).requires_grad_(), weight.requires_grad_(), biases, numbers, factors


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("size", "targets"), [(50, 7), (128, 1), (300, 40), (300, 0)])
def test_losses_and_gradients_are_those_of_doubles(
    size: int, targets: int, bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused, "COLUMNS", dict.fromkeys(fused.COLUMNS, 64))
    states, weight, biases, numbers, factors = given(size, targets, bias)
    learned = [x for x in (states, weight, biases) if x is not None]
    with as_in_training():
        losses = linear_cross_entropy(states, weight, biases, numbers)
        found = torch.autograd.grad((losses * factors).sum(), learned)
    with in_fp32():
        doubles = [x.detach().double().requires_grad_() for x in learned]
        logits = functional.linear(*doubles)
        expected = functional.cross_entropy(logits, numbers, reduction="none")
        wanted = torch.autograd.grad((expected * factors).sum(), doubles)
    assert losses.dtype == torch.float32
    tolerance: dict[str, Any] = {"atol": rounding(2e-5, 0.2), "rtol": rounding(1e-5, 2e-2)}
    torch.testing.assert_close(losses.double(), expected, **tolerance)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one.double(), other, **tolerance)


def test_gradients_of_frozen_weights_are_not_made_and_none_are_made_twice() -> None:
    states, weight, biases, numbers, _ = given(50, 7, bias=True)
    loss = linear_cross_entropy(states, weight.detach(), biases, numbers).sum()
    loss.backward(retain_graph=True)
    assert states.grad is not None
    assert weight.grad is None
    with pytest.raises(RuntimeError, match="compute the loss again"):
        loss.backward()


def test_what_it_does_not_know_is_left_to_torch() -> None:
    states, layer = torch.zeros(2, 4), nn.Linear(4, 8)
    assert can_fuse(states, layer)
    assert not can_fuse(states.double(), layer.double())
    assert not can_fuse(states.to("meta"), nn.Linear(4, 8, device="meta"))
    assert not can_fuse(states, nn.Sequential(nn.Linear(4, 8)))


@pytest.mark.rows(4)
@pytest.mark.parametrize("architecture", [*ARCHITECTURES, *OWN])
def test_a_step_of_any_encoder_has_the_same_loss_and_gradient(architecture: str) -> None:
    batch = collator("mlm")(flat(documents(LENGTHS)))
    found: list[Any] = []
    for quick in (False, True):
        model = SparseMaskedLM(tiny(architecture)).train()
        seen: list[int] = []
        layer = model.pretrained.get_output_embeddings()
        layer.register_forward_hook(lambda _, __, out, seen=seen: seen.append(out.shape[-1]))
        with as_in_training(), quick_gradients(once=quick, directly=False):
            loss = model(batch)["loss"]
            loss.backward()
        found.append((loss, gradients(model.pretrained), seen[-1] == VOCABULARY))
    (plain, wanted, logits), (quick_loss, ours, no_logits) = found
    assert logits
    assert not no_logits, "the layer's logits are not made"
    assert_close(quick_loss, plain, atol=0.0, rtol=rounding(1e-5, 1e-3))
    for name, gradient in wanted.items():
        assert_close(ours[name], gradient, name=name, atol=rounding(2e-5, 0.1), rtol=rounding(1e-4, 0.05))


@pytest.mark.parametrize("changed", [False, True])
def test_a_head_that_changes_its_logits_keeps_them(changed: bool) -> None:
    batch = collator("mlm")(flat(documents(LENGTHS)))
    losses = []
    for quick in (False, True):
        model = SparseMaskedLM(tiny("bert" if changed else "esm")).train()
        if changed:
            head: Any = model.pretrained.cls
            head.register_forward_hook(lambda _, __, logits: logits.tanh() * 3)
        with quick_gradients(once=quick, directly=False):
            losses.append(model(batch)["loss"])
    assert torch.equal(*losses), "ESM's head adds a bias behind its last layer"


def test_an_evaluation_has_the_guesses() -> None:
    model = SparseMaskedLM(tiny()).eval()
    batch = collator("mlm", mlm_probability=1.0)(flat(documents(LENGTHS)))
    with torch.no_grad(), quick_gradients(once=True, directly=True):
        found = model(batch)
        logits = model.logits(model.encode(batch).flatten(0, 1)[batch["target_positions"]])
    assert found["correct"] == (logits.argmax(-1) == batch["targets"]).sum()
