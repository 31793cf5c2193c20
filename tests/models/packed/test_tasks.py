"""Finetuning on packed rows: each task's loss, outputs and gradients are those of padded rows."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.models.tiny import tiny
from tests.objectives.labelled.test_finetuning import TASKS, assert_task_gradients_close, case
from tests.support.precision import BF16, assert_close, gradients
from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.models.packed.rows import choose_layout
from tiryns.runner.objectives.base import Collator
from tiryns.runner.order.keyed import sample_keys

ROUNDING: Any = {"atol": 3e-6, "rtol": 1e-5}
SCALE = 0.5
"""What rounding of scores in bf16 is a share of: those of these models are near 0, and sums of larger terms."""


CHOSEN = np.array([5, 0, 3, 7, 1])


def micro_batch(
    sequences: Any, collator: Collator, packed: bool, chosen: NDArray[np.int64] = CHOSEN
) -> MicroBatch:
    ids, lengths = sequences.gather(chosen)
    keys = sample_keys(0, np.zeros_like(chosen), chosen, 1)
    return collator(
        {
            **sequences.extras(chosen), "input_ids": ids, "lengths": lengths, "keys": keys, "filler": False,
            "packed": packed,
        }
    )  # fmt: skip


def task_model(collator: Collator, architecture: str) -> Any:
    head = collator.model_arguments()["head"]
    torch.manual_seed(0)
    return collator.task_model(head.build(tiny(architecture, vocab_size=collator.vocab_size).config))


@pytest.mark.rows(4)
@pytest.mark.usefixtures("also_in_fp64")
@pytest.mark.parametrize("architecture", ["bert", "modernbert", "roberta", "distilbert", "electra"])
@pytest.mark.parametrize("task", TASKS)
def test_loss_outputs_and_gradients_are_those_of_padded_rows(task: str, architecture: str) -> None:
    sequences, collator = case(task)
    padded, packed = task_model(collator, architecture), task_model(collator, architecture)
    packed.pack_rows()
    found = []
    for model, is_packed in ((padded, False), (packed, True)):
        model.eval()
        output = model(micro_batch(sequences, collator, is_packed))
        output["loss"].backward()
        found.append((output, gradients(model)))
    (expected, theirs), (got, ours) = found
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        if value.is_floating_point() or not BF16:  # which of two like spans is the best is up to rounding
            assert_close(got[name], value, SCALE, name, **ROUNDING)
    assert_task_gradients_close(task, ours, theirs, **ROUNDING)


@pytest.mark.parametrize(
    ("task", "narrowed"),
    [("classification", True), ("token_classification", True), ("question_answering", False)],
)
def test_last_layer_computes_what_the_head_reads(task: str, narrowed: bool) -> None:
    sequences, collator = case(task)
    model = task_model(collator, "bert")
    model.pack_rows()
    seen: list[int] = []
    last = model.pretrained.base_model.encoder.layer[-1].intermediate
    last.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0].shape[1]))
    batch = micro_batch(sequences, collator, packed=True)
    model(batch)
    assert (seen[0] < batch["input_ids"].shape[1]) == narrowed


def test_pooling_by_the_mean_is_over_the_samples_own_tokens() -> None:
    sequences, collator = case("classification")
    models = []
    for packed in (False, True):
        model = task_model(collator, "modernbert")
        model.pretrained.config.classifier_pooling = "mean"
        if packed:
            model.pack_rows()
        models.append(model.eval()(micro_batch(sequences, collator, packed))["logits"])
    assert_close(*models, **ROUNDING)


def test_auto_pads_what_cannot_be_packed(caplog: pytest.LogCaptureFixture) -> None:
    _, collator = case("classification")
    caplog.set_level("INFO", logger="tiryns")
    assert choose_layout("auto", collator, task_model(collator, "bert")) == "packed"
    assert choose_layout("padded", collator, task_model(collator, "bert")) == "padded"
    assert not caplog.messages
    refused = task_model(collator, "deberta-v2").train()
    assert choose_layout("auto", collator, refused) == "padded"
    assert all(module.training for module in refused.modules()), "dropout stays on"
    assert "deberta-v2" in caplog.text
    with pytest.raises(ValueError, match=r"data\.layout=padded"):
        choose_layout("packed", collator, task_model(collator, "deberta-v2"))


def test_a_head_that_mixes_packed_samples_is_refused() -> None:
    sequences, collator = case("classification")
    model = task_model(collator, "bert")

    class Mixing(torch.nn.Module):
        def __init__(self, head: torch.nn.Module) -> None:
            super().__init__()
            self.head = head

        def forward(self, pooled: torch.Tensor) -> torch.Tensor:
            return self.head(pooled + pooled.sum(0))

    pretrained = model.pretrained
    pretrained.classifier = Mixing(pretrained.classifier)
    with pytest.raises(ValueError, match="the head of BertForSequenceClassification"):
        model.pack_rows()
    assert choose_layout("auto", collator, model) == "single", "it mixes padded rows as well"
    with pytest.raises(ValueError, match=r"padding changes the outputs of .*data\.layout=single"):
        choose_layout("padded", collator, model)
    model(micro_batch(sequences, collator, packed=False))
