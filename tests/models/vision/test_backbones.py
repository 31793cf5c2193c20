"""Vision-language models that begin with the weights of a language model and a vision tower."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    LlamaConfig,
    SiglipVisionConfig,
    SiglipVisionModel,
)

from tiryns.conf.model import LlavaTiny
from tiryns.runner.models.head import Head
from tiryns.runner.models.vision.image_text import build_image_text

TEXT: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48,
}  # fmt: skip
VISION: dict[str, Any] = {f"vision_{name}": value for name, value in (TEXT | {"hidden_size": 16}).items()}


class Tokens:
    """A tokenizer of 60 tokens, of which the last is that of images."""

    pad_token_id = bos_token_id = eos_token_id = cls_token_id = sep_token_id = 0

    def __len__(self) -> int:
        return 60

    def convert_tokens_to_ids(self, token: str) -> int:
        return 59


def built(**settings: Any) -> torch.nn.Module:
    sizes = {**TEXT, **VISION, "image_size": 16, "image_places": 4, "max_position_embeddings": 64}
    values: Any = vars(LlavaTiny(**{**sizes, "scale_factor": 2, "architecture": "idefics3", **settings}))
    del values["_target_"]
    return build_image_text(**values, tokenizer=Tokens(), head=Head(AutoModelForImageTextToText))


@pytest.fixture(scope="module")
def backbones(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("backbones")
    torch.manual_seed(3)
    AutoModelForCausalLM.from_config(LlamaConfig(vocab_size=50, **TEXT)).save_pretrained(folder / "text")
    sizes = {name.removeprefix("vision_"): value for name, value in VISION.items()}
    SiglipVisionModel(SiglipVisionConfig(image_size=16, patch_size=4, **sizes)).save_pretrained(
        folder / "vision"
    )
    return folder / "text", folder / "vision"


def test_towers_have_the_weights_of_their_backbones(backbones: tuple[Path, Path]) -> None:
    text, vision = backbones
    torch.manual_seed(0)
    plain = built().state_dict()
    torch.manual_seed(0)
    found = built(text_from=str(text), vision_from=str(vision)).state_dict()
    causal = AutoModelForCausalLM.from_pretrained(text).state_dict()
    tower = SiglipVisionModel.from_pretrained(vision).state_dict()
    for name, weight in found.items():
        inner = name.removeprefix("model.")
        if inner == "text_model.embed_tokens.weight" or name == "lm_head.weight":
            assert torch.equal(weight[:50], causal["model.embed_tokens.weight"])
            assert torch.equal(weight[50:], plain[name][50:]), (
                "tokens that the backbone lacks begin at random"
            )
        elif inner.startswith("text_model."):
            assert torch.equal(weight, causal[f"model.{inner.removeprefix('text_model.')}"]), name
        elif inner.startswith("vision_model."):
            inside = inner.removeprefix("vision_model.")
            theirs = tower.get(inside, tower.get(f"vision_model.{inside}"))
            assert theirs is not None
            assert torch.equal(weight, theirs), name
        else:
            assert torch.equal(weight, plain[name]), name


def test_backbones_of_other_sizes_are_refused(backbones: tuple[Path, Path], tmp_path: Path) -> None:
    text, vision = backbones
    with pytest.raises(
        ValueError, match=r"model\.text_from=.*the weight embed_tokens.weight is missing there"
    ):
        built(text_from=str(vision))
    wide = LlamaConfig(vocab_size=50, **{**TEXT, "intermediate_size": 64})
    AutoModelForCausalLM.from_config(wide).save_pretrained(tmp_path / "wide")
    with pytest.raises(
        ValueError,
        match=r"mlp.gate_proj.weight has the shape \(64, 32\) there, but has the shape \(48, 32\) here",
    ):
        built(text_from=str(tmp_path / "wide"))
    with pytest.raises(ValueError, match=r"model\.vision_from=.*is missing there"):
        built(vision_from=str(text))
    with pytest.raises(ValueError, match=r"model\.text_from=/nowhere"):
        built(text_from="/nowhere")
