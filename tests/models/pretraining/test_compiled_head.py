"""With the encoder its head and the loss are compiled: one graph for any number of targets, and the same losses."""

from typing import Any

import pytest
import torch

from tests.models.tiny import ARCHITECTURES, taught, tiny
from tests.objectives.samples import VOCABULARY, collator, documents, flat
from tests.optim.graphs import Graphs
from tests.support.precision import assert_close, assert_gradients_close, gradients
from tiryns.runner.models import SparseMaskedLM
from tiryns.runner.models.distillation.masked_lm import DistilledMaskedLM

BATCHES = ([9, 4, 12, 2], [3, 30], [17, 2, 5], [40, 41], [8])
OBJECTIVES = ["clm", "mlm", "enhanced_mlm", "diffusion", "rtd", "distillation"]


def of_objective(name: str) -> Any:
    """A model that is trained."""
    if name == "distillation":
        teacher = SparseMaskedLM(tiny(seed=1))
        return DistilledMaskedLM(tiny(), teacher, taught(0.5, 0.5)).train()
    return collator(name).task_model(tiny(vocab_size=VOCABULARY)).train()


def assert_trains_alike(
    plain: Any, other: Any, objective: str = "mlm", layout: str = "padded", **tolerance: Any
) -> None:
    """Compares losses and gradients of both models on all batches."""
    for module in (*plain.modules(), *other.modules()):  # compiled dropout is drawn otherwise
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        elif isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = 0.0
    make = collator("mlm" if objective == "distillation" else objective)
    for lengths in BATCHES:
        batch = make(flat(documents(lengths), packed=layout == "packed"))
        found = []
        for model in (plain, other):
            torch.manual_seed(0)
            loss = model(batch)["loss"]
            loss.backward()
            found.append(loss.detach())
        assert_close(found[1], found[0], **tolerance)
    assert_gradients_close(gradients(other), gradients(plain), **tolerance)


@pytest.mark.rows(1)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_batches_of_any_size_are_one_graph(graphs: Graphs, architecture: str) -> None:
    plain, model = (SparseMaskedLM(tiny(architecture)).train() for _ in range(2))
    names = list(model.state_dict())
    model.compile_core()
    assert_trains_alike(plain, model)
    assert graphs.calls == [len(BATCHES)]
    assert "cross_entropy" in graphs.operations()
    assert "linear" in graphs.operations()
    assert list(model.state_dict()) == names, "the head is there once"


@pytest.mark.slow
@pytest.mark.rows(1)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_has_its_loss_in_the_graph(graphs: Graphs, objective: str) -> None:
    plain, model = of_objective(objective), of_objective(objective)
    model.compile_core()
    assert_trains_alike(plain, model, objective)
    decoders = 2 if objective == "enhanced_mlm" else 1
    assert graphs.calls == [len(BATCHES) * decoders]


def test_evaluation_is_not_compiled(graphs: Graphs) -> None:
    plain, model = (SparseMaskedLM(tiny()) for _ in range(2))
    model.compile_core()
    batch = collator("mlm")(flat(documents(BATCHES[0])))
    with torch.no_grad():
        expected, found = (each.eval()(batch) for each in (plain, model))
    assert torch.equal(found["loss"], expected["loss"])
    assert found["correct"] == expected["correct"]
    assert not graphs.made
