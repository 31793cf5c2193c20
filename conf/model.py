"""Group `model`: networks built from config classes of transformers, at named sizes, or loaded with their weights.

The vocabulary is that of the tokenizer; `model.config.vocab_size` rounds it up, as 30,522 of MosaicBERT to 30,528.
`docs/models.md` has the parameters of published sizes, which have random weights.
"""

from dataclasses import dataclass, field, fields, make_dataclass
from functools import partial
from typing import Any

from omegaconf import MISSING

from tiryns.conf.registry import option_of, register
from tiryns.conf.values import COUNT, NAMED, POSITIVE, Bounds, Choice, Named, Settings, check_of, setting


@dataclass
class Encoder:
    """An encoder with random weights and the tokenizer's vocabulary size."""

    _target_: str = "runner.models.build_encoder"
    architecture: str = MISSING
    """`model_type` of transformers, such as `bert`, `modernbert`, `roberta`, `electra`."""
    hidden_size: int = setting(MISSING, allowed=COUNT)
    """Width of the residual stream."""
    num_hidden_layers: int = setting(MISSING, allowed=Bounds(1, 100_000, whole=True))
    """Transformer layers."""
    num_attention_heads: int = setting(MISSING, allowed=COUNT)
    """Attention heads; divides `hidden_size`."""
    intermediate_size: int = setting(MISSING, allowed=COUNT)
    """Width of the feed-forward layer."""
    max_position_embeddings: int = setting(512, allowed=COUNT)
    """Longest sequence in tokens that the model can take."""
    dropout: float = setting(0.0, allowed=Bounds(0, 1, open_high=True))
    """Dropout of hidden states, attention and embeddings alike."""
    config: dict[str, Any] = field(default_factory=dict)
    """Further fields of the architecture's config class, by their own names."""
    init: str = setting("default", allowed=Choice(("default", "megatron", "gpt_bert")))
    """How weights are drawn: as transformers does, or by a published scheme that depends on depth and width."""
    tiled_from: str | None = setting(None, allowed=NAMED)
    """A smaller model of this architecture and vocabulary, by hub name, folder or run folder, whose weights are tiled."""


@dataclass
class Pretrained:
    """A model with its weights, from the hub, a folder, or a run folder; only its head may be new."""

    _target_: str = "runner.models.load_encoder"
    name_or_path: str = setting(MISSING, allowed=NAMED)
    """Name on the hub, folder of a model, or run folder."""
    config: dict[str, Any] = field(default_factory=dict)
    """Fields of the model's config to change."""
    new_vocabulary: bool = False
    """Fits the embeddings to the tokenizer of the data: tokens known to the model's own are copied, others are means."""
    adapter: str | None = setting(None, allowed=Choice(("lora", "rslora", "dora")))
    """Freezes the encoder (of a vision-language model the language model) and trains low-rank matrices beside its
    weights, by `peft`: W + alpha / rank * B A (`lora`), W + alpha / sqrt(rank) * B A (`rslora`), or with the norms of its
    rows (`dora`). Heads are trained as ever. None trains the weights themselves."""
    adapter_rank: int = setting(8, allowed=COUNT)
    """Rows of A and columns of B."""
    adapter_alpha: float = setting(8.0, allowed=POSITIVE)
    """Factor of B A, divided by the rank or by its square root."""
    adapter_dropout: float = setting(0.0, allowed=Bounds(0, 1, open_high=True))
    """Dropout of what A multiplies."""
    adapter_targets: Any = setting(None, allowed=Named("names of layers, or patterns"))
    """Linear layers to adapt, by their names, the ends of these, or patterns with `*`: `[Wqkv, attn.Wo]`. None adapts all
    linear layers of attention and feed-forward networks."""
    adapter_export: str = setting("merged", allowed=Choice(("merged", "separate")), execution=True)
    """Whether `model/` is a whole model with the adapter `merged` into its weights, or the folder of an adapter, as
    `peft` reads it, which needs the model that the run began with."""


@check_of(Encoder)
def check_network(model: Settings, config: Settings) -> None:
    """Raises ValueError for a network that cannot be, or that is too short for the data."""
    for name in ("hidden_size", "num_attention_heads", "max_position_embeddings"):
        if name not in model:
            raise ValueError(f"model: {model['_target_']} lacks {name}; set model.{name}")
    size, heads = model["hidden_size"], model["num_attention_heads"]
    longest = model["max_position_embeddings"]
    if size % heads:
        raise ValueError(f"model.hidden_size={size} is not divisible by model.num_attention_heads={heads}")
    length = config["data"].get("max_length")
    if option_of("data", config["data"]) and isinstance(length, int) and length > longest:
        raise ValueError(
            f"data.max_length={length} is more than the model can take: model.max_position_embeddings={longest}"
        )


@check_of(Pretrained, "adapter_rank", "adapter_alpha", "adapter_dropout", "adapter_targets", "adapter_export")
def _check_adapter(model: Settings, config: Settings) -> None:
    if not model.get("adapter"):
        set_ones = (f.name for f in fields(Pretrained) if model.get(f.name, f.default) != f.default)
        name = next(name for name in set_ones if name.startswith("adapter_"))
        problem = f"model.{name} counts with an adapter alone: set model.adapter=lora, or take it away"
        raise ValueError(problem)


register("model", encoder=Encoder, pretrained=Pretrained)


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
        is_mapping = isinstance(value, dict)
        made = field(default_factory=partial(dict, value)) if is_mapping else field(default=value)
        own.append((key, types[key], made))
    option = make_dataclass(name, own, bases=(Encoder,), namespace={"__doc__": about, "__module__": __name__})
    globals()[name] = option
    return option


ENCODERS = {
    name: encoder_of(name, about, {**family, **dict(zip(SIZED, sizes, strict=True))})
    for name, (family, *sizes, about) in SIZES.items()
}
register("model", **ENCODERS)
register("model", ettin_150m=ENCODERS["modernbert_base"], ettin_400m=ENCODERS["modernbert_large"])
register("model", mmbert_base=ENCODERS["modernbert_base"])


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
