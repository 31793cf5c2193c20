"""ESM-2 at its published sizes, and with the logits of transformers' EsmForMaskedLM."""

from typing import Any

import numpy as np
import pytest
import torch
from transformers import EsmConfig, EsmForMaskedLM

from tests.objectives.samples import collator, flat
from tests.support.precision import assert_close
from tiryns.conf.registry import OPTIONS
from tiryns.runner.data.text.tokenizer import train_tokenizer
from tiryns.runner.models import SparseMaskedLM
from tiryns.runner.models.encoder import build_encoder
from tiryns.runner.models.packed.rows import set_up_packed_rows
from tiryns.runner.models.pretraining.sparse_head import rows_at

SIZES = {
    "esm2_8m": (6, 320, 20), "esm2_35m": (12, 480, 20), "esm2_150m": (30, 640, 20),
    "esm2_650m": (33, 1280, 20), "esm2_3b": (36, 2560, 40), "esm2_15b": (48, 5120, 40),
}  # fmt: skip
"""Layers, width and heads of huggingface.co/facebook/esm2_t{layers}_{size}_UR50D."""

SHARED: dict[str, Any] = {
    "attention_probs_dropout_prob": 0.0, "emb_layer_norm_before": False, "hidden_dropout_prob": 0.0,
    "initializer_range": 0.02, "layer_norm_eps": 1e-5, "mask_token_id": 32, "max_position_embeddings": 1026,
    "pad_token_id": 1, "position_embedding_type": "rotary", "tie_word_embeddings": True, "token_dropout": True,
    "vocab_size": 33,
}  # fmt: skip
"""What the config.json of each has, and the defaults that it leaves out."""

TINY: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
}  # fmt: skip


def built(option: str, **changes: Any) -> tuple[Any, Any]:
    """The model of an option, and the tokenizer of proteins."""
    tokenizer = train_tokenizer([], "characters:protein", 33, lowercase=False)
    fields = {name: value for name, value in vars(OPTIONS["model"][option]()).items() if name != "_target_"}
    return build_encoder(**{**fields, **changes}, tokenizer=tokenizer), tokenizer


@pytest.mark.parametrize("option", SIZES)
def test_config_is_the_published_one(option: str) -> None:
    layers, width, heads = SIZES[option]
    with torch.device("meta"):
        config = built(option)[0].config.to_dict()
    assert config["num_hidden_layers"] == layers
    assert (config["hidden_size"], config["intermediate_size"]) == (width, 4 * width)
    assert config["num_attention_heads"] == heads
    assert {name: config[name] for name in SHARED} == SHARED


def test_logits_are_those_of_transformers_with_the_same_weights() -> None:
    model, tokenizer = built("esm2_8m", **TINY)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.2)  # biases too
    theirs = EsmForMaskedLM(EsmConfig(**SHARED, **TINY)).eval()
    theirs.load_state_dict(model.state_dict())
    rows = tokenizer(["MKTAYIAKQRQISFVKSHFSRQ", "MAG", "GSHMX"])["input_ids"]
    ids = {"pad_token_id": 1, "mask_token_id": 32, "special_token_ids": tokenizer.all_special_ids}
    batch = collator("mlm", **ids, vocab_size=33, mlm_probability=0.5)(flat([np.array(row) for row in rows]))
    assert (batch["input_ids"] == 32).any()
    ours = SparseMaskedLM(model.eval())
    found = ours.logits(rows_at(ours.encode(batch), batch["target_positions"]))
    mask = batch["attention_mask"]
    expected = theirs(input_ids=batch["input_ids"], attention_mask=mask).logits.flatten(0, 1)
    assert_close(found, expected[batch["target_positions"]])
    theirs.config.token_dropout = theirs.esm.embeddings.token_dropout = False
    other = theirs(input_ids=batch["input_ids"], attention_mask=mask).logits.flatten(0, 1)
    assert (other[batch["target_positions"]] - found).abs().max() > 0.01


def test_rows_are_padded_as_the_share_of_their_masks_scales_them() -> None:
    config = {**OPTIONS["model"]["esm2_8m"]().config, "token_dropout": False}
    set_up_packed_rows(built("esm2_8m", **TINY, config=config)[0])
    with pytest.raises(ValueError, match=r"\(esm\).*data.layout=padded"):
        set_up_packed_rows(built("esm2_8m", **TINY)[0])
