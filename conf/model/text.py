"""Group `model`: networks built from config classes of transformers, or loaded with their weights."""

from dataclasses import dataclass, field, fields
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
    size, heads, longest = (
        model["hidden_size"],
        model["num_attention_heads"],
        model["max_position_embeddings"],
    )
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
        name = next(
            f.name
            for f in fields(Pretrained)
            if f.name.startswith("adapter_") and model.get(f.name, f.default) != f.default
        )
        raise ValueError(
            f"model.{name} counts with an adapter alone: set model.adapter=lora, or take it away"
        )


register("model", encoder=Encoder, pretrained=Pretrained)
