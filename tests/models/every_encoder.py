"""Tiny models of every masked language model of transformers and of ours, and of decoders with heads for tasks."""

from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.models.auto import modeling_auto as known

from tests.models.tiny import SIZES
from tests.objectives.samples import END, START
from tiryns.runner.models.architectures.registered import ARCHITECTURES, register

WITH_IMAGES = ("modernvbert", "ultravbert")
"""Masked language models that are given images; vision-language models have tests of their own."""

register()
ENCODERS = tuple(sorted({*known.MODEL_FOR_MASKED_LM_MAPPING_NAMES, *ARCHITECTURES} - set(WITH_IMAGES)))
OTHERS = (
    "biogpt", "bloom", "ctrl", "falcon", "gemma", "gemma2", "gemma3_text", "glm", "gpt2", "gpt_bigcode", "gpt_neo",
    "gpt_neox", "gptj", "lilt", "llama", "ministral", "mistral", "mixtral", "modernbert-decoder", "mpt", "mt5", "olmo2",
    "openai-gpt", "opt", "persimmon", "phi", "phi3", "qwen2", "qwen2_moe", "qwen3", "smollm3", "splinter", "stablelm",
    "starcoder2", "t5", "umt5", "xlnet",
)  # fmt: skip
EVERY = tuple(
    name for name in (*ENCODERS, *OTHERS) if name in known.CONFIG_MAPPING_NAMES or name in ARCHITECTURES
)

HEADS: dict[str, tuple[Any, Any]] = {
    "mlm": (AutoModelForMaskedLM, known.MODEL_FOR_MASKED_LM_MAPPING_NAMES),
    "classification": (
        AutoModelForSequenceClassification,
        known.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
    ),
    "token_classification": (
        AutoModelForTokenClassification,
        known.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
    ),
    "question_answering": (AutoModelForQuestionAnswering, known.MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES),
}
"""Auto class of each task, and the architectures that it knows."""

_GPT: dict[str, Any] = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 80}
_BART = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
}  # fmt: skip
_T5 = {"d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0}
_XLM = {"emb_dim": 32, "n_layers": 2, "n_heads": 2}
_PLANES = {"max_2d_position_embeddings": 32}
OWN: dict[str, dict[str, Any]] = {
    "bart": _BART,
    "bloom": {"n_layer": 2, "n_head": 2},
    "ctrl": {**_GPT, "dff": 48},
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 48},
    "flaubert": _XLM,
    "funnel": {"block_sizes": [1, 1], "d_model": 32, "d_head": 16, "n_head": 2, "d_inner": 48},
    "gemma": {"head_dim": 16},
    "gemma2": {"head_dim": 16, "sliding_window": 16},
    "gemma3_text": {"head_dim": 16, "sliding_window": 16},
    "glm": {"head_dim": 16},
    "gpt2": _GPT,
    "gpt_bigcode": _GPT,
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 8, "num_layers": 2, "num_heads": 2},
    "gptj": {**_GPT, "rotary_dim": 8},
    "layoutlm": _PLANES,
    "lilt": {**_PLANES, "hidden_size": 48, "channel_shrink_ratio": 4},
    "longformer": {"attention_window": 8},
    "luke": {"entity_vocab_size": 20, "entity_emb_size": 16},
    "mbart": _BART,
    "ministral": {"head_dim": 16},
    "mixtral": {"num_local_experts": 4},
    "mobilebert": {"embedding_size": 16, "intra_bottleneck_size": 16, "num_feedforward_networks": 1},
    "modernbert": {"local_attention": 16},
    "mpt": {"d_model": 32, "n_heads": 2, "n_layers": 2, "max_seq_len": 80},
    "mra": {"block_per_row": 2},
    "mt5": _T5,
    "mvp": _BART,
    "openai-gpt": _GPT,
    "opt": {"word_embed_proj_dim": 16, "ffn_dim": 48},
    "perceiver": {
        "num_latents": 8, "d_latents": 32, "d_model": 32, "num_blocks": 1, "num_self_attends_per_block": 2,
        "num_self_attention_heads": 2, "num_cross_attention_heads": 2,
    },
    "qwen2_moe": {"num_experts": 4, "moe_intermediate_size": 48, "shared_expert_intermediate_size": 48},
    "reformer": {
        "axial_pos_shape": [8, 10], "axial_pos_embds_dim": [16, 16], "attention_head_size": 16, "feed_forward_size": 48,
        "attn_layers": ["local", "lsh"], "num_buckets": 2, "lsh_attn_chunk_length": 8, "local_attn_chunk_length": 8,
        "is_decoder": False,
    },
    "rembert": {"input_embedding_size": 16, "output_embedding_size": 24},
    "roc_bert": {"pronunciation_vocab_size": 20, "shape_vocab_size": 20},
    "roformer": {"embedding_size": 32},
    "squeezebert": {"embedding_size": 32},
    "t5": _T5,
    "umt5": _T5,
    "xlm": _XLM,
    "xlnet": {"d_model": 32, "n_layer": 2, "n_head": 2, "d_inner": 48},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
}  # fmt: skip
"""What architectures call their sizes, where that is their own."""

WITHOUT = {"funnel": "num_hidden_layers", "reformer": "num_hidden_layers", "xlnet": "max_position_embeddings"}
"""A size that follows from others, or that an architecture has none of."""


def tiny_config(architecture: str, **fields: Any) -> PretrainedConfig:
    """Two layers of 32 without dropout, and the special tokens of the small vocabulary."""
    default = AutoConfig.for_model(architecture)
    wanted = {**SIZES, "num_key_value_heads": 2, **fields}
    wanted.pop(WITHOUT.get(architecture, ""), None)
    found = {name: value for name, value in wanted.items() if hasattr(default, name)}
    dropout = {
        name: 0.0 for name, value in vars(default).items() if "dropout" in name and isinstance(value, float)
    }
    tokens = {"bos_token_id": START, "cls_token_id": START, "eos_token_id": END, "sep_token_id": END}
    return AutoConfig.for_model(architecture, **{**dropout, **tokens, **found, **OWN.get(architecture, {})})


def tiny_model(architecture: str, task: str, **fields: Any) -> PreTrainedModel:
    """A model with the head of a task, and random weights."""
    torch.manual_seed(0)
    model: PreTrainedModel = HEADS[task][0].from_config(tiny_config(architecture, **fields))
    return model


def tasks_of(architecture: str) -> list[str]:
    """The tasks that there is a head of this architecture for."""
    return [task for task, (_, theirs) in HEADS.items() if architecture in {*theirs, *ARCHITECTURES}]
