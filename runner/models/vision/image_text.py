"""Vision-language models with random weights, built from the config classes of transformers."""

from math import isqrt
from typing import Any

from transformers import AutoConfig, AutoModelForImageTextToText, PreTrainedModel, PreTrainedTokenizerBase

from iolaus.conf.model.vision import LlavaTiny
from iolaus.conf.values import check_choice
from iolaus.runner.config.settings import takes_settings
from iolaus.runner.data.vision.processors import SPECIAL_TOKENS
from iolaus.runner.models.encoder import SIZES, checked_fields, special_tokens
from iolaus.runner.models.head import Head


@takes_settings(LlavaTiny)
def build_image_text(
    settings: LlavaTiny, tokenizer: PreTrainedTokenizerBase, head: Head | None = None
) -> PreTrainedModel:
    """A vision tower, a projector and a Llama, as `llava` or `idefics3` (SmolVLM's architecture) joins them.

    An image of `image_size` squared becomes `image_places` tokens: one per patch in `llava`, one per
    `scale_factor` squared patches in `idefics3`. Raises ValueError for another architecture, sizes that do not fit
    together, an unknown config field, or an objective that does not train on images and text.
    """
    architecture, image_size, image_places = settings.architecture, settings.image_size, settings.image_places
    check_choice("model.architecture", architecture, SPECIAL_TOKENS)
    if head is None or head.auto is not AutoModelForImageTextToText:
        raise ValueError(
            "this model is for images and text: choose objective=vision_language and module=vision_language"
        )
    side = isqrt(image_places) * (settings.scale_factor if architecture == "idefics3" else 1)
    if image_size % side:
        raise ValueError(
            f"model.image_size={image_size} does not divide into {side} patches a side, which "
            f"model.image_places={image_places} needs"
        )
    vision = {
        "model_type": "clip_vision_model" if architecture == "llava" else "idefics3_vision",
        **{name: getattr(settings, f"vision_{name}") for name in SIZES},
        "image_size": image_size,
        "patch_size": image_size // side,
    }
    text = {
        "model_type": "llama",
        **{name: getattr(settings, name) for name in (*SIZES, "max_position_embeddings")},
        "num_key_value_heads": settings.num_attention_heads,
        **special_tokens(tokenizer),
    }
    known = AutoConfig.for_model(architecture)
    image_token_id = tokenizer.convert_tokens_to_ids("<image>")
    joint: dict[str, Any] = {"image_token_id": image_token_id, "scale_factor": settings.scale_factor}
    if architecture == "llava":
        joint = {
            "image_token_index": image_token_id,
            "image_seq_length": image_places,
            "vision_feature_layer": -1,
            "projector_hidden_act": "gelu",
        }
    config = AutoConfig.for_model(
        architecture,
        vision_config=vision | checked_fields(settings.vision_config, known.vision_config),
        text_config=text | checked_fields(settings.text_config, known.text_config),
        tie_word_embeddings=True,
        **joint,
    )
    return head.build(config)
