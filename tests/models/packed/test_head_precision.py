"""Heads of finetuned models are computed in fp32 where nothing is trained, whatever the encoder is computed in."""

from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, BertConfig, BertForMultipleChoice

from tests.support.precision import in_fp32
from tiryns.runner.models.finetuning import HeadedModel, SequenceClassifier
from tiryns.runner.models.packed.rows import packed_row, padded_rows
from tiryns.runner.tasks.multiple_choice.model import MultipleChoiceModel

SIZES: dict[str, Any] = {
    "vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 32,
}  # fmt: skip


def classifier(architecture: str) -> HeadedModel:
    config = AutoConfig.for_model(architecture, **SIZES, num_labels=1, pad_token_id=0)
    return SequenceClassifier(AutoModelForSequenceClassification.from_config(config).eval(), "regression")


def chooser() -> HeadedModel:
    return MultipleChoiceModel(BertForMultipleChoice(BertConfig(**SIZES)).eval(), "listwise")


@pytest.mark.rows(4)
@pytest.mark.parametrize("layout", ["packed", "padded"])
@pytest.mark.parametrize("architecture", ["bert", "modernbert", "roberta", "distilbert", "choices"])
def test_scores_of_an_evaluation_are_not_rounded_to_bf16(architecture: str, layout: str) -> None:
    torch.manual_seed(0)
    model = chooser() if architecture == "choices" else classifier(architecture)
    encoder = model.pretrained.base_model
    documents = [torch.randint(5, 100, (7,)) for _ in range(64)]
    if layout == "packed":
        model.pack_rows()
        rows = packed_row(documents)
    else:
        rows = padded_rows(documents, model.pretrained.config)
    with torch.autocast("cpu", torch.bfloat16):
        trained = model.outputs(rows).logits.float()
        with torch.no_grad():
            evaluated = model.outputs(rows).logits
    assert model.pretrained.base_model is encoder
    assert torch.equal(trained, trained.bfloat16().float())
    assert evaluated.dtype == torch.float32
    assert len(evaluated.unique()) == 64
    assert torch.allclose(evaluated, trained, atol=2e-2)
    with in_fp32(), torch.no_grad():
        exact = model.outputs(rows).logits
    assert not torch.equal(evaluated, exact)  # the encoder is computed in bf16 all the same
