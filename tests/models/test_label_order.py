"""A trained head goes on with its labels in another order: its rows are moved by name."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoModelForTokenClassification

from tests.models.every_encoder import HEADS, tiny_model
from tiryns.runner.models.distillation.teacher import load_teacher
from tiryns.runner.models.head import Head, order_of, reorder_labels
from tiryns.runner.models.packed.trials import trial_documents
from tiryns.runner.objectives.labelled.finetuning import label_config

LABELS = ["neg", "pos", "so-so"]
OURS = ["so-so", "neg", "pos"]
ORDER = [2, 0, 1]

ARCHITECTURES = (
    "albert", "bart", "bert", "bloom", "camembert", "deberta-v2", "distilbert", "electra", "esm", "funnel", "gpt2",
    "llama", "mobilebert", "modernbert", "mpnet", "qwen3", "rembert", "roberta", "squeezebert", "t5", "xlnet",
)  # fmt: skip


def saved(folder: Path, architecture: str, task: str, labels: list[str] = LABELS, **fields: Any) -> Any:
    model = tiny_model(architecture, task, num_labels=len(labels), **fields).eval()
    model.config.update(label_config(labels))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)  # biases as well
    model.save_pretrained(folder)
    return model


def logits(model: Any) -> Any:
    with torch.no_grad():
        return model.eval()(input_ids=trial_documents(model.config)[0][None]).logits


LABELLED = ("classification", "token_classification")


@pytest.mark.rows(6)
@pytest.mark.parametrize(
    ("architecture", "task"),
    [(name, task) for name in ARCHITECTURES for task in LABELLED if name in HEADS[task][1]],
)
def test_logits_move_with_their_names(tmp_path: Path, architecture: str, task: str) -> None:
    auto, _ = HEADS[task]
    before = saved(tmp_path, architecture, task)
    loaded = Head(auto, label_config(OURS)).load(str(tmp_path), AutoConfig.from_pretrained(tmp_path), {})
    assert loaded.training
    torch.testing.assert_close(logits(loaded), logits(before)[..., ORDER])
    assert not torch.allclose(logits(loaded), logits(before), atol=1e-4)
    assert loaded.config.id2label == dict(enumerate(OURS))


@pytest.mark.parametrize(
    "ours", [["neg", "pos", "good"], ["neg", "pos"], [*LABELS, "more"], ["neg", "pos", "pos"]]
)
def test_other_labels_are_refused(tmp_path: Path, ours: list[str]) -> None:
    saved(tmp_path, "bert", "token_classification")
    with pytest.raises(ValueError, match=r"has a head for 3 labels \(neg, pos, so-so\), the data has"):
        Head(AutoModelForTokenClassification, label_config(ours)).load(
            str(tmp_path), AutoConfig.from_pretrained(tmp_path), {}
        )
    assert order_of(LABELS, ours) is None


def test_a_number_has_any_name(tmp_path: Path) -> None:
    before = saved(tmp_path, "bert", "classification", ["LABEL_0"])
    head = Head(AutoModelForSequenceClassification, label_config(["value"]))
    loaded = head.load(str(tmp_path), AutoConfig.from_pretrained(tmp_path), {})
    assert torch.equal(logits(loaded), logits(before))
    assert loaded.config.id2label == {0: "value"}
    assert order_of(LABELS, ["value"]) is None


def test_a_head_that_is_no_linear_layer_is_refused() -> None:
    model: Any = tiny_model("bert", "classification", num_labels=3)

    class Scores(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows = nn.Parameter(torch.randn(3, 32))

        def forward(self, hidden: Any) -> Any:
            return hidden @ self.rows.T

    model.classifier = Scores()
    with pytest.raises(ValueError, match="cannot be put into another order: set data"):
        reorder_labels(model, ORDER)


def test_as_many_hidden_units_as_labels_are_no_labels(tmp_path: Path) -> None:
    names = [f"label {number:02d}" for number in range(32)]
    before = saved(tmp_path, "roberta", "classification", names)
    turned: Any = Head(AutoModelForSequenceClassification, label_config(names[::-1])).load(
        str(tmp_path), AutoConfig.from_pretrained(tmp_path), {}
    )
    torch.testing.assert_close(logits(turned), logits(before).flip(-1))
    assert torch.equal(turned.classifier.dense.weight, before.classifier.dense.weight)


def test_a_teacher_is_asked_in_the_order_of_the_data(tmp_path: Path) -> None:
    before = saved(tmp_path, "bert", "classification")
    teacher = load_teacher(str(tmp_path), "AutoModelForSequenceClassification", None, OURS)
    torch.testing.assert_close(logits(teacher), logits(before)[..., ORDER])
    with pytest.raises(ValueError, match="was trained for 3 labels"):
        load_teacher(str(tmp_path), "AutoModelForSequenceClassification", None, ["a", "b", "c"])
