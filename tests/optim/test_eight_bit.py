"""The 8-bit variants do what the others do, in a quarter of the memory."""

import pytest
import torch

from tests.optim.tiny import EIGHT_BIT, make, state_bytes, tiny_bert, train
from tests.support import needs
from tiryns.runner.optim import get_optimizer


@pytest.mark.slow
@pytest.mark.rows(1)
@pytest.mark.parametrize("name", EIGHT_BIT)
def test_the_8_bit_variant_does_what_the_other_does(name: str) -> None:
    finals = []
    for quantized in (False, True):
        model = tiny_bert()
        losses = train(model, make(name, quantized, model, weight_decay=0.1), range(12))
        finals.append(losses[0] - losses[-1])
    assert finals[1] == pytest.approx(finals[0], rel=0.1)


@pytest.mark.rows(2)
@pytest.mark.parametrize("name", EIGHT_BIT)
def test_8_bit_state_is_a_quarter(name: str) -> None:
    sizes = []
    for quantized in (False, True):
        model = tiny_bert(hidden_size=128, intermediate_size=256)
        optimizer = make(name, quantized, model)
        train(model, optimizer, range(1))
        sizes.append(state_bytes(optimizer))
    assert 0.24 < sizes[1] / sizes[0] < 0.33


@pytest.mark.parametrize("quantized", [False, True])
def test_adam_decays_through_the_gradient_and_adamw_beside_it(quantized: bool) -> None:
    def decayed(name: str) -> float:
        """How much a weight of 1 moves in a step whose gradient is all but zero."""
        weight = torch.nn.Parameter(torch.ones(64, 64))
        if quantized:
            needs.package("bitsandbytes")
        optimizer = get_optimizer(name, [weight], {"lr": 1e-3, "weight_decay": 0.1}, quantized)
        weight.grad = torch.full_like(weight, 1e-12)
        optimizer.step()
        return float(1 - weight.detach().mean())

    assert decayed("adam") == pytest.approx(1e-3, rel=0.01)
    assert decayed("adamw") == pytest.approx(1e-4, rel=0.01)
