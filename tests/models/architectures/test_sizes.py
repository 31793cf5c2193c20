"""Options of published sizes have the parameters that were published, built without memory."""

from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from tiryns.conf.registry import OPTIONS
from tiryns.runner.data.text.tokenizer import train_tokenizer
from tiryns.runner.models.encoder import build_encoder
from tiryns.runner.optim.roles import parts

pytestmark = pytest.mark.fp32  # nothing is computed

PUBLISHED = {
    "modernbert_base": (50368, 149_655_232), "modernbert_large": (50368, 395_881_664),
    "ettin_17m": (50368, 16_913_600), "ettin_32m": (50368, 32_081_344), "ettin_68m": (50368, 68_457_664),
    "ettin_150m": (50368, 149_655_232), "ettin_400m": (50368, 395_881_664),
    "ettin_1b": (50368, 1_031_314_112), "mmbert_small": (256000, 140_897_536),
    "mmbert_base": (256000, 307_786_240), "eurobert_210m": (128256, 310_266_624),
    "eurobert_610m": (128256, 755_625_600), "eurobert_2b": (128256, 2_403_092_736),
    "neobert": (30522, 245_106_432), "crammed_bert": (32768, 119_589_889),
    "mosaic_bert_base": (30528, 137_400_384), "gpt_bert_small": (8192, 29_892_164),
    "gpt_bert_base": (16384, 119_454_532), "esm2_8m": (33, 7_512_474), "esm2_35m": (33, 33_501_394),
    "esm2_150m": (33, 148_140_154), "esm2_650m": (33, 651_043_254), "esm2_3b": (33, 2_839_005_634),
    "esm2_15b": (33, 15_129_100_194),
}  # fmt: skip
"""Vocabulary and parameters; EuroBERT's names leave out its decoder, NeoBERT's decoder had 30,522 biases more."""


def built(option: str, **changes: Any) -> PreTrainedModel:
    """The model of an option without its numbers."""
    fields = {name: value for name, value in vars(OPTIONS["model"][option]()).items() if name != "_target_"}
    fields["config"] = {**fields["config"], "vocab_size": PUBLISHED[option][0], "pad_token_id": 0}
    with torch.device("meta"):
        return build_encoder(**{**fields, **changes}, tokenizer=None)


@pytest.mark.rows(12)
@pytest.mark.parametrize("option", PUBLISHED)
def test_parameters_are_the_published_ones(option: str) -> None:
    assert sum(p.numel() for p in built(option).parameters()) == PUBLISHED[option][1]


def test_neobert_knows_the_special_tokens_of_the_tokenizer() -> None:
    tokenizer = train_tokenizer(["a heron by the river"], kind="wordpiece", vocab_size=80, lowercase=True)
    settings = {**vars(OPTIONS["model"]["neobert"]()), "hidden_size": 24, "num_hidden_layers": 1}
    settings.pop("_target_")
    config = build_encoder(**settings, tokenizer=tokenizer).config
    assert (config.mask_token_id, config.pad_token_id) == (tokenizer.mask_token_id, tokenizer.pad_token_id)


def test_unknown_pooling_is_refused_in_one_line() -> None:
    with pytest.raises(
        ValueError, match=r"^transformers builds no crammed_bert .*='max' must be 'cls' or 'mean'$"
    ):
        built("crammed_bert", config={"vocab_size": 60, "classifier_pooling": "max"})


def test_published_initialisation_of_gpt_bert() -> None:
    model = built("gpt_bert_small", num_hidden_layers=1)
    assert type(model).__name__ == "GptBertForMaskedLM"
    roles = {name: part.role for name, part in parts(model).items()}
    assert roles["model.embeddings.bucket_embeddings.weight"] == "embedding"
    assert roles["model.layers.0.attn.Wvg.weight"] == roles["head.dense.weight"] == "matrix"
    assert roles["model.layers.0.after_mlp"] == "vector"
