"""Runs of our own architectures, in any cut."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.models.tiny import OWN
from tests.support.precision import rounding

SMALL = [
    "model.num_hidden_layers=2",
    "model.num_attention_heads=2",
    "model.dropout=0.1",
    "trainer.max_steps=3",
]


@pytest.mark.slow
@pytest.mark.parametrize("architecture", OWN)
def test_pretraining_does_not_depend_on_the_cut(architecture: str, run_here: Callable[..., Any]) -> None:
    own = [f"model.architecture={architecture}", *SMALL, "optimizer=muon", "trainer.validate_every=3"]
    cuts = {
        "packed": ["data.layout=packed", "module.gradient_checkpointing=true"],
        "padded": ["data.layout=padded", "data.micro_batch_tokens=150"],
    }
    losses = {
        name: run_here(*own, *cut, folder=name).status["results"]["val/held_out/loss"]
        for name, cut in cuts.items()
    }
    assert losses["packed"] == pytest.approx(losses["padded"], rel=rounding(1e-5, 1e-2))
