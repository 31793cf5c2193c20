"""Tiny models of images and text of several architectures, with random weights, in folders as the hub has them."""

import importlib
import json
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForImageTextToText, PreTrainedTokenizerFast

from tiryns.runner.data.vision.processors import train_conversation_tokenizer

TEXT: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 64, "max_position_embeddings": 1024,
}  # fmt: skip
VISION: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "image_size": 32,
    "patch_size": 8,
}  # fmt: skip
QWEN_VISION: dict[str, Any] = {"depth": 2, "num_heads": 4}
QWEN_TOKENS = {
    "vision_start_token": "<|vision_start|>", "vision_end_token": "<|vision_end|>", "image_token": "<|image_pad|>",
    "video_token": "<|video_pad|>",
}  # fmt: skip
QWEN_TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: {% if m['content'] is string %}{{ m['content'] }}{% else %}"
    "{% for p in m['content'] %}{% if p['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ p['text'] }}{% endif %}{% endfor %}{% endif %}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
"""Tells images that stand side by side apart, as its models need."""

GRID = [[32, 64], [64, 32], [64, 64]]
TILES = [f"<row_{row}_col_{column}>" for row in range(1, 5) for column in range(1, 5)]

VARYING = ("idefics3", "smolvlm", "llava_next", "internvl", "qwen2_vl", "qwen3_vl")
"""Architectures in which an image has as many tokens as its size gives."""

ARCHITECTURES = (*VARYING, "gemma3", "paligemma")


def save_image_text_model(architecture: str, folder: Path) -> Path:
    """Writes weights, tokenizer and processor; returns the folder."""
    processor, tokens, images, options, config = _PARTS[architecture]()
    trained = train_conversation_tokenizer(
        ["USER: what is it? ASSISTANT: it is a red circle and a blue square"] * 9, "wordpiece", 300, True
    )
    trained.add_special_tokens(
        {"extra_special_tokens": [*tokens.values()]}, replace_extra_special_tokens=False
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=trained.backend_tokenizer,
        **{f"{name}_token": getattr(trained, f"{name}_token") for name in ("bos", "eos", "pad", "unk")},
        extra_special_tokens=tokens,
        model_input_names=["input_ids", "attention_mask"],
    )
    if architecture.startswith("qwen"):
        tokenizer.chat_template = QWEN_TEMPLATE
    ids = {f"{name}_id": tokenizer.vocab[token] for name, token in tokens.items()}
    known = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    text = TEXT | config.pop("text", {}) | known
    torch.manual_seed(0)
    made = AutoConfig.for_model(architecture, text_config=text, **_with_ids(config, ids))
    AutoModelForImageTextToText.from_config(made).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    module, name = images
    image_processor = getattr(
        importlib.import_module(f"transformers.models.{module}.image_processing_pil_{module}"), name
    )(**options.pop("images"))
    video = {"video_processor": {"video_processor_type": "Qwen2VLVideoProcessor"}}
    (folder / "processor_config.json").write_text(
        json.dumps(
            {"processor_class": processor, "image_processor": image_processor.to_dict(), **options, **video}
        )
    )
    return folder


def _with_ids(config: dict[str, Any], ids: dict[str, int]) -> dict[str, Any]:
    return {
        name: ids[value] if isinstance(value, str) and value in ids else value
        for name, value in config.items()
    }


def _qwen2_vl() -> Any:
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}
    size = {"shortest_edge": 28 * 28 * 2, "longest_edge": 28 * 28 * 9}
    return (
        "Qwen2VLProcessor", QWEN_TOKENS, ("qwen2_vl", "Qwen2VLImageProcessorPil"), {"images": {"size": size}},
        {
            "text": {"rope_parameters": rope}, **{f"{n}_id": f"{n}_id" for n in QWEN_TOKENS},
            "vision_config": {**QWEN_VISION, "embed_dim": 32, "mlp_ratio": 2, "hidden_size": 32, "patch_size": 14},
        },
    )  # fmt: skip


def _qwen3_vl() -> Any:
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}
    size = {"shortest_edge": 32 * 32 * 2, "longest_edge": 32 * 32 * 9}
    vision = {
        **QWEN_VISION, "hidden_size": 32, "intermediate_size": 64, "out_hidden_size": 32, "patch_size": 16,
        "deepstack_visual_indexes": [0], "num_position_embeddings": 64,
    }  # fmt: skip
    return (
        "Qwen3VLProcessor", QWEN_TOKENS, ("qwen2_vl", "Qwen2VLImageProcessorPil"),
        {"images": {"size": size, "patch_size": 16, "merge_size": 2}},
        {
            "text": {"rope_parameters": rope, "head_dim": 8}, "vision_config": vision,
            **{f"{n}_id": f"{n}_id" for n in QWEN_TOKENS},
        },
    )  # fmt: skip


def _idefics3() -> Any:
    tokens = ["<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>", *TILES]
    names = {"image_token": tokens[0]} | {f"tile_{i}": token for i, token in enumerate(tokens[1:])}
    images = {
        "size": {"longest_edge": 64},
        "max_image_size": {"longest_edge": 32},
        "do_image_splitting": True,
    }
    return (
        "Idefics3Processor", names, ("idefics3", "Idefics3ImageProcessorPil"), {"images": images, "image_seq_len": 4},
        {"text": {"model_type": "llama"}, "vision_config": VISION, "scale_factor": 2, "image_token_id": "image_token_id"},
    )  # fmt: skip


def _smolvlm() -> Any:
    tokens = {
        "image_token": "<image>", "fake_image_token": "<fake_token_around_image>", "global_image_token": "<global-img>",
        "end_of_utterance_token": "<end_of_utterance>", **{f"tile_{i}": token for i, token in enumerate(TILES)},
    }  # fmt: skip
    _, _, (_, _), options, config = _idefics3()
    return "SmolVLMProcessor", tokens, ("smolvlm", "SmolVLMImageProcessorPil"), options, config


def _llava_next() -> Any:
    images = {
        "size": {"shortest_edge": 32},
        "crop_size": {"height": 32, "width": 32},
        "image_grid_pinpoints": GRID,
    }
    options = {"patch_size": 8, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
    return (
        "LlavaNextProcessor", {"image_token": "<image>"}, ("llava_next", "LlavaNextImageProcessorPil"),
        {"images": images, **options},
        {
            "text": {"model_type": "llama"}, "vision_config": {**VISION, "model_type": "clip_vision_model"},
            "image_grid_pinpoints": GRID, "image_token_index": "image_token_id",
        },
    )  # fmt: skip


def _internvl() -> Any:
    tokens = {
        "start_image_token": "<img>", "end_image_token": "</img>", "context_image_token": "<IMG_CONTEXT>",
        "video_token": "<video>",
    }  # fmt: skip
    images = {
        "size": {"height": 32, "width": 32}, "crop_to_patches": True, "min_patches": 1, "max_patches": 4,
    }  # fmt: skip
    vision = {**VISION, "image_size": [32, 32], "patch_size": [8, 8]}
    return (
        "InternVLProcessor", tokens, ("got_ocr2", "GotOcr2ImageProcessorPil"),
        {"images": images, "image_seq_length": 4},
        {
            "text": {"model_type": "qwen2"}, "vision_config": vision, "downsample_ratio": 0.5,
            "image_token_id": "context_image_token_id",
        },
    )  # fmt: skip


def _gemma3() -> Any:
    tokens = {
        "boi_token": "<start_of_image>",
        "eoi_token": "<end_of_image>",
        "image_token": "<image_soft_token>",
    }
    return (
        "Gemma3Processor", tokens, ("gemma3", "Gemma3ImageProcessorPil"),
        {"images": {"size": {"height": 32, "width": 32}}, "image_seq_length": 4},
        {
            "text": {"head_dim": 8, "sliding_window": 64}, "vision_config": VISION, "mm_tokens_per_image": 4,
            "boi_token_index": "boi_token_id", "eoi_token_index": "eoi_token_id", "image_token_id": "image_token_id",
            "image_token_index": "image_token_id",
        },
    )  # fmt: skip


def _paligemma() -> Any:
    vision = {**VISION, "model_type": "siglip_vision_model", "projection_dim": 32}
    return (
        "PaliGemmaProcessor", {"image_token": "<image>"}, ("siglip", "SiglipImageProcessorPil"),
        {"images": {"size": {"height": 32, "width": 32}, "image_seq_length": 16}},
        {
            "text": {"model_type": "gemma", "head_dim": 8}, "vision_config": vision, "projection_dim": 32,
            "image_token_index": "image_token_id",
        },
    )  # fmt: skip


_PARTS = {
    "qwen2_vl": _qwen2_vl, "qwen3_vl": _qwen3_vl, "idefics3": _idefics3, "smolvlm": _smolvlm, "llava_next": _llava_next,
    "internvl": _internvl, "gemma3": _gemma3, "paligemma": _paligemma,
}  # fmt: skip
"""Of each: the processor's class, special tokens, the image processor's class, settings of both, and the config."""
