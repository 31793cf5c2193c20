"""A packed micro-batch goes forward and backward without a look at any value, for which the host would wait for a GPU.

Tensors on the meta device have shapes and no values: who looks at one gets an error.
"""

from typing import Any

import pytest
import torch

from tests.models.packed.test_tasks import micro_batch, task_model
from tests.models.tiny import tiny
from tests.objectives.labelled.test_finetuning import TASKS, case
from tests.objectives.samples import VOCABULARY, collator, documents, flat
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.packed import attention as packed_attention

OBJECTIVES = ["mlm", "enhanced_mlm", "diffusion", "rtd"]


def without_values(value: Any) -> Any:
    """Tensors, in lists and mappings too, as what only their shape is known of; floats in half precision, as on a GPU."""
    if isinstance(value, dict):
        return {name: without_values(part) for name, part in value.items()}
    if not isinstance(value, torch.Tensor):
        return value
    dtype = torch.bfloat16 if value.is_floating_point() else value.dtype
    return torch.empty(value.shape, dtype=dtype, device="meta")


def packed_case(objective: str, architecture: str, dropout: float) -> tuple[Any, MicroBatch]:
    """A model on the meta device, and a packed micro-batch for it."""
    if objective in OBJECTIVES:
        make = collator(objective)
        model: Any = make.task_model(tiny(architecture, vocab_size=VOCABULARY))
        batch = make(flat(documents([9, 4, 12, 2, 30, 17]), packed=True))
    else:
        sequences, make = case(objective)
        model, batch = task_model(make, architecture), micro_batch(sequences, make, packed=True)
    model.pack_rows()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = dropout
        elif hasattr(module, "attention_dropout"):
            module.attention_dropout = dropout
    return model.to(torch.bfloat16).to("meta").train(), without_values(batch)


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention takes the ways that it takes on a GPU."""
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)  # which meta knows nothing of
    monkeypatch.setattr(packed_attention, "_has_flash", lambda _: True)


@pytest.mark.rows(4)
@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
@pytest.mark.parametrize("objective", [*OBJECTIVES, *TASKS])
def test_no_value_is_looked_at(objective: str, architecture: str, dropout: float) -> None:
    model, batch = packed_case(objective, architecture, dropout)
    loss = model(batch)["loss"]
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert loss.is_meta
    assert gradients
    assert all(gradient.is_meta for gradient in gradients)


@pytest.mark.usefixtures("as_on_a_gpu")
def test_a_look_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the loop over documents has it, which takes them one by one."""
    monkeypatch.setattr(packed_attention, "_MOST_PLACES", 0)
    model, batch = packed_case("mlm", "bert", 0.1)
    with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
        model(batch)
