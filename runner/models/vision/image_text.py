"""Vision-language models with random weights, built from the config classes of transformers."""

from math import isqrt
from typing import Any

from transformers import AutoConfig, AutoModelForImageTextToText, PreTrainedModel, PreTrainedTokenizerBase

from iolaus.conf.values import suggest
from iolaus.runner.data.vision.processors import SPECIAL_TOKENS
from iolaus.runner.models.encoder import checked_fields, special_tokens
from iolaus.runner.models.head import Head


def build_image_text(
    architecture: str,
    hidden_size: int,
    num_hidden_layers: int,
    num_attention_heads: int,
    intermediate_size: int,
    max_position_embeddings: int,
    vision_hidden_size: int,
    vision_num_hidden_layers: int,
    vision_num_attention_heads: int,
    vision_intermediate_size: int,
    image_size: int,
    image_places: int,
    scale_factor: int,
    text_config: dict[str, Any],
    vision_config: dict[str, Any],
    tokenizer: PreTrainedTokenizerBase,
    head: Head | None = None,
) -> PreTrainedModel:
    """A vision tower, a projector and a Llama, as `llava` or `idefics3` (SmolVLM's architecture) joins them.

    An image of `image_size` squared becomes `image_places` tokens: one per patch in `llava`, one per
    `scale_factor` squared patches in `idefics3`.

    Raises:
        ValueError: another architecture, sizes that do not fit together, an unknown config field, or an objective that
            does not train on images and text.
    """
    if architecture not in SPECIAL_TOKENS:
        raise ValueError(
            f"model.architecture={architecture!r} cannot be built here; there are: {', '.join(SPECIAL_TOKENS)}"
            + suggest(architecture, SPECIAL_TOKENS)
        )
    if head is None or head.auto is not AutoModelForImageTextToText:
        raise ValueError(
            "this model is for images and text: choose objective=vision_language and module=vision_language"
        )
    side = isqrt(image_places) * (scale_factor if architecture == "idefics3" else 1)
    if image_size % side:
        raise ValueError(
            f"model.image_size={image_size} does not divide into {side} patches a side, which model.image_places="
            f"{image_places} wants"
        )
    vision = {
        "model_type": "clip_vision_model" if architecture == "llava" else "idefics3_vision",
        "hidden_size": vision_hidden_size,
        "num_hidden_layers": vision_num_hidden_layers,
        "num_attention_heads": vision_num_attention_heads,
        "intermediate_size": vision_intermediate_size,
        "image_size": image_size,
        "patch_size": image_size // side,
    }
    text = {
        "model_type": "llama",
        "hidden_size": hidden_size,
        "num_hidden_layers": num_hidden_layers,
        "num_attention_heads": num_attention_heads,
        "num_key_value_heads": num_attention_heads,
        "intermediate_size": intermediate_size,
        "max_position_embeddings": max_position_embeddings,
        **special_tokens(tokenizer),
    }
    known = AutoConfig.for_model(architecture)
    image_token_id = tokenizer.convert_tokens_to_ids("<image>")
    joint: dict[str, Any] = {"image_token_id": image_token_id, "scale_factor": scale_factor}
    if architecture == "llava":
        joint = {
            "image_token_index": image_token_id,
            "image_seq_length": image_places,
            "vision_feature_layer": -1,
            "projector_hidden_act": "gelu",
        }
    config = AutoConfig.for_model(
        architecture,
        vision_config=vision | checked_fields(vision_config, known.vision_config),
        text_config=text | checked_fields(text_config, known.text_config),
        tie_word_embeddings=True,
        **joint,
    )
    return head.build(config)
