"""Group `model`, vision-language: small models of images and text, built from config classes of transformers."""

from dataclasses import dataclass, field
from typing import Any

from tiryns.conf.model.text import check_network
from tiryns.conf.registry import register
from tiryns.conf.values import COUNT, NAMED, check_of, setting


@dataclass
class LlavaTiny:
    """LLaVA (a CLIP tower, two linear layers, a Llama), 2 + 2 layers of 128; for `objective=vision_language`."""

    _target_: str = "runner.models.build_image_text"
    architecture: str = "llava"
    """`llava` or `idefics3`."""
    hidden_size: int = setting(128, allowed=COUNT)
    """Width of the language model."""
    num_hidden_layers: int = setting(2, allowed=COUNT)
    """Its layers."""
    num_attention_heads: int = setting(4, allowed=COUNT)
    """Its attention heads; divides `hidden_size`."""
    intermediate_size: int = setting(384, allowed=COUNT)
    """Width of its feed-forward layers."""
    max_position_embeddings: int = setting(2048, allowed=COUNT)
    """Longest sequence in tokens, those of images included."""
    vision_hidden_size: int = 96
    """Width of the vision tower."""
    vision_num_hidden_layers: int = 2
    """Its layers."""
    vision_num_attention_heads: int = 4
    """Its attention heads; divides `vision_hidden_size`."""
    vision_intermediate_size: int = 192
    """Width of its feed-forward layers."""
    image_size: int = 32
    """Height and width in pixels that images are resized to."""
    image_places: int = 4
    """Tokens of an image in the text, a square number."""
    scale_factor: int = 2
    """Patches per side that `idefics3` joins into one token; `llava` joins none."""
    text_config: dict[str, Any] = field(default_factory=lambda: {"initializer_range": 0.08})
    """Further fields of the language model's config class; weights of 1 / sqrt(width) learn faster than of 0.02."""
    vision_config: dict[str, Any] = field(default_factory=dict)
    """Further fields of the vision tower's config class."""
    text_from: Any = setting(None, allowed=NAMED)
    """Name or folder of a language model of these sizes to begin with, such as SmolLM2; none begins with random weights.
    Further tokens, such as those of images, begin at random."""
    vision_from: Any = setting(None, allowed=NAMED)
    """Name or folder of a vision tower of these sizes to begin with, such as SigLIP's; none begins at random."""


check_of(LlavaTiny)(check_network)


@dataclass
class SmolVlmTiny(LlavaTiny):
    """Idefics3, the architecture of SmolVLM (a SigLIP tower whose patches are joined, one linear layer, a Llama)."""

    architecture: str = "idefics3"


@dataclass
class NanoVlm460M(SmolVlmTiny):
    """nanoVLM's sizes (github.com/huggingface/nanoVLM): SigLIP2-base, sixteen patches to a token, SmolLM2-360M."""

    hidden_size: int = 960
    num_hidden_layers: int = 32
    num_attention_heads: int = 15
    intermediate_size: int = 2560
    max_position_embeddings: int = 8192
    vision_hidden_size: int = 768
    vision_num_hidden_layers: int = 12
    vision_num_attention_heads: int = 12
    vision_intermediate_size: int = 3072
    image_size: int = 512
    image_places: int = 64
    scale_factor: int = 4
    text_config: dict[str, Any] = field(
        default_factory=lambda: {
            "num_key_value_heads": 5,
            "rope_parameters": {"rope_type": "default", "rope_theta": 100000.0},
            "vocab_size": 49218,
        }
    )
    text_from: Any = "HuggingFaceTB/SmolLM2-360M-Instruct"
    vision_from: Any = "google/siglip2-base-patch16-512"


register("model", nanovlm_460m=NanoVlm460M)
register("model", llava_tiny=LlavaTiny, smolvlm_tiny=SmolVlmTiny)
