"""Rows are filled to shapes that do not change: one graph of the encoder and one of the head, and the same losses."""

from typing import Any

import pytest
import torch
from torch import nn

from tests.models.tiny import tiny
from tests.objectives.samples import collator, documents, flat
from tests.optim.graphs import Graphs
from tests.support.precision import assert_close, assert_gradients_close, gradients
from tiryns.runner.models import SparseMaskedLM
from tiryns.runner.models.pretraining.fixed_shapes import Sizes, fixed_sizes, keep_gradients
from tiryns.runner.optim import compiled

BATCHES = ([9, 4, 12, 2], [3, 30], [17, 2, 5], [40, 20], [8], [64])
SIZES = fixed_sizes(tokens=64, rate=0.3, longest=64)
NO_DROPOUT: Any = dict.fromkeys(
    ("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout"), 0.0
)


def models(architecture: str, sizes: Sizes = SIZES, **fields: Any) -> tuple[SparseMaskedLM, SparseMaskedLM]:
    """A model for packed rows as they are, and the same in fixed shapes."""
    plain, model = (SparseMaskedLM(tiny(architecture, **NO_DROPOUT, **fields)).train() for _ in range(2))
    for each in (plain, model):
        each.pack_rows()
    plain.last_layer.remove()
    model.compile_core()
    model.fix_shapes(sizes)
    return plain, model


def assert_trains_alike(plain: SparseMaskedLM, model: SparseMaskedLM) -> None:
    """Compares losses, and the gradients added up over all batches."""
    for lengths in BATCHES:
        batch = collator("mlm")(flat(documents(lengths), packed=True))
        batch["target_weights"] = torch.rand(
            len(batch["targets"]), generator=torch.Generator().manual_seed(0)
        )
        losses = [each(batch)["loss"] for each in (plain, model)]
        for loss in losses:
            loss.backward()
        assert_close(losses[1].detach(), losses[0].detach())
    assert_gradients_close(gradients(model), gradients(plain), atol=1e-5, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.rows(1)
@pytest.mark.parametrize(
    "architecture", ["bert", "modernbert", "roberta", "electra", "distilbert", "albert", "crammed_bert"]
)
def test_micro_batches_of_any_size_are_one_graph_of_each_part(graphs: Graphs, architecture: str) -> None:
    assert_trains_alike(*models(architecture))
    assert graphs.calls == [len(BATCHES)] * 2, "encoder and head"
    assert graphs.modes == ["reduce-overhead"] * 2


@pytest.mark.slow
def test_rows_that_are_not_filled_are_more_graphs(graphs: Graphs) -> None:
    assert_trains_alike(*models("bert", Sizes(tokens=1, targets=1, documents=1, longest=1)))
    assert len(graphs.made) > len(BATCHES)


@pytest.mark.slow
def test_what_does_not_fit_is_another_graph(graphs: Graphs) -> None:
    assert_trains_alike(*models("bert", Sizes(48, 16, 8, 64), num_hidden_layers=1))
    assert len(graphs.made) == 4, "the encoder of 48 and 96 tokens, the head of 16 and 32 targets"


@pytest.mark.slow
def test_evaluation_and_padded_rows_are_as_they_are(graphs: Graphs) -> None:
    plain, model = models("bert")
    packed, padded = (collator("mlm")(flat(documents(BATCHES[0]), packed=packed)) for packed in (True, False))
    with torch.no_grad():
        expected, found = (each.eval()(packed) for each in (plain, model))
    assert torch.equal(found["loss"], expected["loss"])
    assert found["correct"] == expected["correct"]
    assert not graphs.made
    model = SparseMaskedLM(tiny(**NO_DROPOUT)).train()
    model.compile_core()
    model.fix_shapes(SIZES)
    model(padded)
    assert graphs.calls_with("cross_entropy") == sum(graphs.calls) == 1


def test_an_encoder_that_is_not_one_graph_reads_rows_as_they_are(
    graphs: Graphs, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="tiryns")
    plain, model = models("mosaic_bert", num_hidden_layers=1)
    assert_trains_alike(plain, model)
    assert [message.partition(" (")[0] for message in caplog.messages] == [
        "encoder in fixed shapes: not compiled, as torch cannot"
    ], "once"
    assert graphs.modes == [None], "the head, of any number of targets"


def test_gradients_are_kept_once_and_added_up() -> None:
    weights = [nn.Parameter(torch.ones(3)) for _ in range(3)]
    kept: set[nn.Parameter] = set()
    (weights[0] * 2).sum().backward()
    made: Any = weights[0].grad
    keep_gradients(weights, kept)
    made.fill_(torch.nan)  # as a replay does
    own: Any = weights[0].grad
    (weights[0] * 3 + weights[1]).sum().backward()
    keep_gradients(weights, kept)
    assert (weights[0].grad is own, own.tolist()) == (True, [5.0] * 3)
    assert (kept, weights[2].grad) == (set(weights[:2]), None)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
def test_compiled_for_the_processor_it_trains_alike(architecture: str) -> None:
    torch._dynamo.reset()
    assert compiled.BACKEND == "inductor"
    plain, model = models(architecture)
    assert_trains_alike(plain, model)
    assert model._fixed is not None
    assert model._fixed.works
    assert model._fixed.losses.works
