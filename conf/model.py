"""Group `model`: networks built from config classes of transformers, at named sizes, or loaded with their weights.

The vocabulary is as large as the tokenizer's; `model.config.vocab_size` may round it up (MosaicBERT: 30,522 to 30,528).
`docs/models.md` has the parameter counts of published sizes, which begin with random weights.
"""

from dataclasses import dataclass, fields, make_dataclass
from pathlib import Path
from typing import Any

import yaml
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
    """Attention heads, a divisor of `hidden_size`."""
    intermediate_size: int = setting(MISSING, allowed=COUNT)
    """Width of the feed-forward layer."""
    max_position_embeddings: int = setting(512, allowed=COUNT)
    """Longest sequence in tokens that the model can take."""
    dropout: float = setting(0.0, allowed=Bounds(0, 1, open_high=True))
    """Dropout of hidden states, attention and embeddings alike."""
    config: dict[str, Any] = setting({})
    """Further fields of the architecture's config class, by their own names."""
    init: str = setting("default", allowed=Choice(("default", "megatron", "gpt_bert")))
    """Initialization of the weights: transformers' (`default`), or a published scheme that depends on depth and width."""
    tiled_from: str | None = setting(None, allowed=NAMED)
    """Hub name, folder or run folder of a smaller model with this architecture and vocabulary; its weights are tiled."""


@dataclass
class Pretrained:
    """A model with its weights, from the hub, a folder, or a run folder; only its head may be new."""

    _target_: str = "runner.models.load_encoder"
    name_or_path: str = setting(MISSING, allowed=NAMED)
    """Name on the hub, folder of a model, or run folder."""
    config: dict[str, Any] = setting({})
    """Fields of the model's config to change."""
    new_vocabulary: bool = False
    """Fits embeddings to the data's tokenizer: known tokens keep theirs, new tokens get the mean of their pieces'."""
    adapter: str | None = setting(None, allowed=Choice(("lora", "rslora", "dora")))
    """Freezes the encoder (in a vision-language model the language model) and trains low-rank matrices A and B for its
    weights W, by `peft`: W + alpha / rank * B A (`lora`), W + alpha / sqrt(rank) * B A (`rslora`), or `lora` with trained
    norms of the rows (`dora`). Heads are trained in full. None: no adapter, the weights are trained."""
    adapter_rank: int = setting(8, allowed=COUNT)
    """Rank of the adapter: the rows of A and the columns of B."""
    adapter_alpha: float = setting(8.0, allowed=POSITIVE)
    """Alpha of the adapter: the factor of B A, which is divided by the rank or by its square root."""
    adapter_dropout: float = setting(0.0, allowed=Bounds(0, 1, open_high=True))
    """Dropout of the adapter's inputs."""
    adapter_targets: Any = setting(None, allowed=Named("names of layers, or patterns"))
    """Linear layers to adapt: names, ends of names, or patterns with `*`, such as `[Wqkv, attn.Wo]`. None: all linear
    layers of attention and feed-forward networks."""
    adapter_export: str = setting("merged", allowed=Choice(("merged", "separate")), execution=True)
    """What `model/` holds: `merged`, a whole model with the adapter merged into its weights; `separate`, the adapter
    alone, which `peft` reads and which needs the model that the run began with."""


@check_of(Encoder)
def check_network(model: Settings, config: Settings) -> None:
    """Raises ValueError for a missing size, heads that do not divide the width, or data longer than the model takes."""
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


# .yml, as a file of the other ending would be a config of Hydra's with this name
SIZES: dict[str, dict[str, dict[str, Any]]] = yaml.load(
    Path(__file__).with_name("sizes.yml").read_text(encoding="utf-8"),
    yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader,
)
"""The families of published sizes, by the option whose defaults they change."""

SIZED = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")
"""The fields in which the sizes of a family differ, in the order of a row of `sizes.yml`."""


def sizes_of(name: str, base: type) -> dict[str, type]:
    """Returns a dataclass for each published size of an option, and adds it to this module, as pickle needs it."""
    types, classes = {f.name: f.type for f in fields(base)}, dict[str, type]()
    for family in SIZES[name].values():
        for size, (*numbers, about) in family["sizes"].items():
            values = {**family["all"], **dict(zip(SIZED, numbers, strict=True))}
            specs = [(key, types[key], setting(value)) for key, value in values.items()]
            namespace = {"__doc__": about, "__module__": __name__}
            globals()[size] = classes[size] = make_dataclass(size, specs, bases=(base,), namespace=namespace)
    return classes


ENCODERS = sizes_of("encoder", Encoder)
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
    """Layers of the language model."""
    num_attention_heads: int = setting(4, allowed=COUNT)
    """Attention heads of the language model, a divisor of `hidden_size`."""
    intermediate_size: int = setting(384, allowed=COUNT)
    """Width of the language model's feed-forward layers."""
    max_position_embeddings: int = setting(2048, allowed=COUNT)
    """Longest sequence in tokens, image tokens included."""
    vision_hidden_size: int = 96
    """Width of the vision tower."""
    vision_num_hidden_layers: int = 2
    """Layers of the vision tower."""
    vision_num_attention_heads: int = 4
    """Attention heads of the vision tower, a divisor of `vision_hidden_size`."""
    vision_intermediate_size: int = 192
    """Width of the vision tower's feed-forward layers."""
    image_size: int = 32
    """Height and width in pixels that images are resized to."""
    image_places: int = 4
    """Number of tokens that an image takes in the text, a square number."""
    scale_factor: int = 2
    """Patches per side that `idefics3` joins into one token; `llava` joins none."""
    text_config: dict[str, Any] = setting({"initializer_range": 0.08})
    """Further fields of the language model's config class; an initial std of 1 / sqrt(width) learns faster than 0.02."""
    vision_config: dict[str, Any] = setting({})
    """Further fields of the vision tower's config class."""
    text_from: Any = setting(None, allowed=NAMED)
    """Name or folder of a pretrained language model of the same sizes, such as SmolLM2; none: random weights.
    Added tokens, such as image tokens, begin with random embeddings."""
    vision_from: Any = setting(None, allowed=NAMED)
    """Name or folder of a pretrained vision tower of the same sizes, such as SigLIP's; none: random weights."""


check_of(LlavaTiny)(check_network)


@dataclass
class SmolVlmTiny(LlavaTiny):
    """Idefics3, the architecture of SmolVLM (a SigLIP tower whose patches are joined, one linear layer, a Llama)."""

    architecture: str = "idefics3"


register("model", **sizes_of("smolvlm_tiny", SmolVlmTiny), llava_tiny=LlavaTiny, smolvlm_tiny=SmolVlmTiny)
