"""Group `model`: encoders at named sizes, most of them those that they were published at, with random weights.

The vocabulary is that of the tokenizer; `model.config.vocab_size` rounds it up, as 30,522 of MosaicBERT to 30,528.
`docs/models.md` has their parameters.
"""

from dataclasses import field, fields, make_dataclass
from functools import partial
from typing import Any

from tiryns.conf.model.text import Encoder
from tiryns.conf.registry import register

BERT = {"architecture": "bert"}
MODERNBERT = {"architecture": "modernbert", "max_position_embeddings": 8192}
GPT_BERT = {"architecture": "gpt_bert", "dropout": 0.1, "init": "gpt_bert"}
EUROBERT = {"architecture": "eurobert", "max_position_embeddings": 8192}
MOSAIC_BERT = {
    "architecture": "mosaic_bert", "dropout": 0.1, "config": {"attention_probs_dropout_prob": 0.0},
}  # fmt: skip
GROUPED = {**EUROBERT, "config": {"num_key_value_heads": 6}}
CRAMMED_BERT = {"architecture": "crammed_bert", "max_position_embeddings": 128}
NEOBERT = {
    "architecture": "eurobert", "max_position_embeddings": 4096, "config": {"initializer_range": 0.02 / 3**0.5},
}  # fmt: skip
ESM2 = {
    "architecture": "esm", "max_position_embeddings": 1026,
    "config": {
        "position_embedding_type": "rotary", "token_dropout": True, "emb_layer_norm_before": False,
        "layer_norm_eps": 1e-5,
    },
}  # fmt: skip

SIZED = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")
"""The fields that a row of the table gives."""

# fmt: off
SIZES: dict[str, tuple[dict[str, Any], int, int, int, int, str]] = {
    "bert_tiny": (BERT, 2, 128, 2, 512, "BERT, 2 layers of 128."),
    "bert_mini": (BERT, 4, 256, 4, 1024, "BERT, 4 layers of 256."),
    "bert_small": (BERT, 4, 512, 8, 2048, "BERT, 4 layers of 512."),
    "bert_medium": (BERT, 8, 512, 8, 2048, "BERT, 8 layers of 512."),
    "bert_base": (BERT, 12, 768, 12, 3072, "BERT-base, 12 layers of 768."),
    "modernbert_tiny": (MODERNBERT, 2, 128, 2, 256,
        "ModernBERT (rotary positions, gated feed-forward, local attention), 2 layers of 128."),
    "modernbert_mini": (MODERNBERT, 4, 256, 4, 512, "ModernBERT, 4 layers of 256."),
    "modernbert_small": (MODERNBERT, 6, 512, 8, 768, "ModernBERT, 6 layers of 512."),
    "modernbert_base": (MODERNBERT, 22, 768, 12, 1152, "ModernBERT-base, 22 layers of 768."),
    "modernbert_large": (MODERNBERT, 28, 1024, 16, 2624, "ModernBERT-large, 28 layers of 1024."),
    "ettin_17m": (MODERNBERT, 7, 256, 4, 384, "Ettin's smallest encoder, a ModernBERT of 7 layers of 256."),
    "ettin_32m": (MODERNBERT, 10, 384, 6, 576, "Ettin's encoder of 10 layers of 384."),
    "ettin_68m": (MODERNBERT, 19, 512, 8, 768, "Ettin's encoder of 19 layers of 512."),
    "ettin_1b": (MODERNBERT, 28, 1792, 28, 3840, "Ettin's largest encoder, 28 layers of 1792."),
    "mmbert_small": (MODERNBERT, 22, 384, 6, 1152,
        "mmBERT-small, a ModernBERT of 22 layers of 384 for the vocabulary of Gemma 2."),
    "crammed_bert": (CRAMMED_BERT, 16, 768, 12, 1536,
        "Crammed BERT (pre-norm, gated feed-forward, no biases in matrices), 16 layers of 768."),
    "mosaic_bert_base": (MOSAIC_BERT, 12, 768, 12, 3072,
        "MosaicBERT-base (BERT with ALiBi and gated feed-forward), 12 layers of 768, no dropout of attention."),
    "gpt_bert_small": (GPT_BERT, 12, 384, 6, 1280,
        "GPT-BERT small (relative positions, gated attention, weighted residuals), 12 layers of 384."),
    "gpt_bert_base": (GPT_BERT, 12, 768, 12, 2560, "GPT-BERT base, 12 layers of 768."),
    "eurobert_210m": (EUROBERT, 12, 768, 12, 3072,
        "EuroBERT-210m (pre-norm, rotary positions, SwiGLU, decoder not tied), 12 layers of 768."),
    "eurobert_610m": (GROUPED, 26, 1152, 18, 4096,
        "EuroBERT-610m, 26 layers of 1152, three heads of queries to one of keys."),
    "eurobert_2b": (GROUPED, 32, 2304, 18, 6144,
        "EuroBERT-2.1B, 32 layers of 2304, three heads of queries to one of keys."),
    "neobert": (NEOBERT, 28, 768, 12, 2048,
        "NeoBERT as a EuroBERT of 28 layers of 768: without its decoder's bias, weights normal where its were uniform."),
    "esm2_8m": (ESM2, 6, 320, 20, 1280, "ESM-2 of proteins (pre-norm, rotary, token dropout), 6 layers of 320."),
    "esm2_35m": (ESM2, 12, 480, 20, 1920, "ESM-2 of proteins, 12 layers of 480."),
    "esm2_150m": (ESM2, 30, 640, 20, 2560, "ESM-2 of proteins, 30 layers of 640."),
    "esm2_650m": (ESM2, 33, 1280, 20, 5120, "ESM-2 of proteins, 33 layers of 1280."),
    "esm2_3b": (ESM2, 36, 2560, 40, 10240, "ESM-2 of proteins, 36 layers of 2560."),
    "esm2_15b": (ESM2, 48, 5120, 40, 20480, "ESM-2 of proteins, 48 layers of 5120."),
}
"""The fields of the family, layers, width, heads, width of the feed-forward layer, and a description, by option."""
# fmt: on


def encoder_of(name: str, about: str, values: dict[str, Any]) -> type:
    """Makes the dataclass of an option: `Encoder` with other defaults, importable by its name as pickle needs it."""
    types = {f.name: f.type for f in fields(Encoder)}
    own = []
    for key, value in values.items():
        made_anew = (
            field(default_factory=partial(dict, value)) if isinstance(value, dict) else field(default=value)
        )
        own.append((key, types[key], made_anew))
    made = make_dataclass(name, own, bases=(Encoder,), namespace={"__doc__": about, "__module__": __name__})
    globals()[name] = made
    return made


ENCODERS = {
    name: encoder_of(name, about, {**family, **dict(zip(SIZED, sizes, strict=True))})
    for name, (family, *sizes, about) in SIZES.items()
}
register("model", **ENCODERS)
register("model", ettin_150m=ENCODERS["modernbert_base"], ettin_400m=ENCODERS["modernbert_large"])
register("model", mmbert_base=ENCODERS["modernbert_base"])
