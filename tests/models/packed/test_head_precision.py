"""Heads of finetuned models are computed in fp32 where nothing is trained, whatever the encoder is computed in."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification

from tiryns.runner.models.finetuning import SequenceClassifier
from tiryns.runner.models.packed.rows import packed_row

SIZES = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}


@pytest.mark.parametrize("architecture", ["bert", "modernbert", "roberta"])
def test_scores_of_an_evaluation_are_not_rounded_to_bf16(architecture: str) -> None:
    torch.manual_seed(0)
    config = AutoConfig.for_model(architecture, **SIZES, num_labels=1, pad_token_id=0)
    model = SequenceClassifier(AutoModelForSequenceClassification.from_config(config).eval(), "regression")
    model.pack_rows()
    row = packed_row([torch.randint(5, 100, (7,)) for _ in range(64)])
    with torch.autocast("cpu", torch.bfloat16):
        trained = model.outputs(row).logits.float()
        with torch.no_grad():
            evaluated = model.outputs(row).logits
    assert torch.equal(trained, trained.bfloat16().float())
    assert evaluated.dtype == torch.float32
    assert len(evaluated.unique()) == 64
    assert torch.allclose(evaluated, trained, atol=2e-2)
