"""Vision-language models with random weights, built from the config classes of transformers."""

from math import isqrt

from torch import nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForImageTextToText,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from tiryns.conf.model import LlavaTiny
from tiryns.conf.values import Settings, check_choice
from tiryns.runner.config.calling import takes_settings
from tiryns.runner.data.vision.processors import SPECIAL_TOKENS
from tiryns.runner.models.encoder import SIZES, checked_fields, special_tokens
from tiryns.runner.models.head import Head
from tiryns.runner.models.initial.dtypes import load_model
from tiryns.runner.run.errors import reason_of
from tiryns.runner.run.model_folder import model_folder

TOWERS = {
    "text_from": {"llava": "language_model", "idefics3": "text_model"},
    "vision_from": {"llava": "vision_tower.vision_model", "idefics3": "vision_model"},
}
"""Names of the parts in each architecture that may take the weights of other models."""


@takes_settings(LlavaTiny)
def build_image_text(
    settings: LlavaTiny, tokenizer: PreTrainedTokenizerBase, head: Head | None = None
) -> PreTrainedModel:
    """Builds a vision tower, a projector and a Llama, as `llava` or `idefics3` (SmolVLM's architecture) joins them.

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
            f"model.image_size={image_size} is not divisible by {side}, the patches per side "
            f"that model.image_places={image_places} needs"
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
    defaults = AutoConfig.for_model(architecture)
    image_token_id = tokenizer.convert_tokens_to_ids("<image>")
    joint: dict[str, object] = {"image_token_id": image_token_id, "scale_factor": settings.scale_factor}
    if architecture == "llava":
        joint = {
            "image_token_index": image_token_id,
            "image_seq_length": image_places,
            "vision_feature_layer": -1,
            "projector_hidden_act": "gelu",
        }
    config = AutoConfig.for_model(
        architecture,
        vision_config=vision | checked_fields(_without_nulls(settings.vision_config), defaults.vision_config),
        text_config=text | checked_fields(_without_nulls(settings.text_config), defaults.text_config),
        tie_word_embeddings=True,
        **joint,
    )
    model = head.build(config)
    for name, path in (("text_from", settings.text_from), ("vision_from", settings.vision_from)):
        if path is not None:
            tower = model.base_model.get_submodule(TOWERS[name][architecture])
            begin_with(tower, path, f"model.{name}")
    return model


def _without_nulls(fields: Settings) -> Settings:
    """Returns the fields that are set; null stands for the default."""
    return {name: value for name, value in fields.items() if value is not None}


def begin_with(tower: nn.Module, name_or_path: str, setting: str) -> None:
    """Gives a tower the weights of a language model, or of the vision tower of a model of images and text.

    Embedding rows beyond the other model's vocabulary stay as they are. Raises ValueError if that model lacks a weight,
    or has it in another shape.
    """
    try:
        model = load_model(AutoModel, model_folder(name_or_path))
    except (OSError, ValueError) as error:
        raise ValueError(f"{setting}={name_or_path}: {reason_of(error)}") from error
    state = getattr(model, "vision_model", model).state_dict()
    for name, weight in tower.state_dict().items():
        source = state.get(name)
        extends = name == "embed_tokens.weight" and source is not None and len(source) <= len(weight)
        place = weight[: len(source)] if extends and source is not None else weight
        if source is None or source.shape != place.shape:
            has = "is missing" if source is None else f"has the shape {tuple(source.shape)}"
            raise ValueError(
                f"{setting}={name_or_path}: the weight {name} {has} there, but has the shape "
                f"{tuple(weight.shape)} here; give a model of the same sizes"
            )
        place.copy_(source)
