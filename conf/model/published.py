"""Group `model`: encoders at the sizes they were published at, with random weights.

The vocabulary is that of the tokenizer; `model.config.vocab_size` rounds it up, as 30,522 of MosaicBERT to 30,528.
`docs/models.md` has their parameters.
"""

from dataclasses import dataclass, field
from typing import Any

from tiryns.conf.model.text import Encoder, ModernBertBase
from tiryns.conf.registry import register


@dataclass
class ModernBertLarge(ModernBertBase):
    """ModernBERT-large, 28 layers of 1024."""

    hidden_size: int = 1024
    num_hidden_layers: int = 28
    num_attention_heads: int = 16
    intermediate_size: int = 2624


@dataclass
class Ettin17M(ModernBertBase):
    """Ettin's smallest encoder, a ModernBERT of 7 layers of 256."""

    hidden_size: int = 256
    num_hidden_layers: int = 7
    num_attention_heads: int = 4
    intermediate_size: int = 384


@dataclass
class Ettin32M(ModernBertBase):
    """Ettin's encoder of 10 layers of 384."""

    hidden_size: int = 384
    num_hidden_layers: int = 10
    num_attention_heads: int = 6
    intermediate_size: int = 576


@dataclass
class Ettin68M(ModernBertBase):
    """Ettin's encoder of 19 layers of 512."""

    hidden_size: int = 512
    num_hidden_layers: int = 19
    num_attention_heads: int = 8
    intermediate_size: int = 768


@dataclass
class Ettin1B(ModernBertBase):
    """Ettin's largest encoder, 28 layers of 1792."""

    hidden_size: int = 1792
    num_hidden_layers: int = 28
    num_attention_heads: int = 28
    intermediate_size: int = 3840


@dataclass
class MmBertSmall(ModernBertBase):
    """mmBERT-small, a ModernBERT of 22 layers of 384 for the vocabulary of Gemma 2."""

    hidden_size: int = 384
    num_attention_heads: int = 6


@dataclass
class CrammedBert(Encoder):
    """Crammed BERT (pre-norm, gated feed-forward, no biases in matrices), 16 layers of 768."""

    architecture: str = "crammed_bert"
    hidden_size: int = 768
    num_hidden_layers: int = 16
    num_attention_heads: int = 12
    intermediate_size: int = 1536
    max_position_embeddings: int = 128


@dataclass
class MosaicBertBase(Encoder):
    """MosaicBERT-base (BERT with ALiBi and gated feed-forward), 12 layers of 768, no dropout of attention."""

    architecture: str = "mosaic_bert"
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    dropout: float = 0.1
    config: dict[str, Any] = field(default_factory=lambda: {"attention_probs_dropout_prob": 0.0})


@dataclass
class GptBertSmall(Encoder):
    """GPT-BERT small (relative positions, gated attention, weighted residuals), 12 layers of 384."""

    architecture: str = "gpt_bert"
    hidden_size: int = 384
    num_hidden_layers: int = 12
    num_attention_heads: int = 6
    intermediate_size: int = 1280
    dropout: float = 0.1
    init: str = "gpt_bert"


@dataclass
class GptBertBase(GptBertSmall):
    """GPT-BERT base, 12 layers of 768."""

    hidden_size: int = 768
    num_attention_heads: int = 12
    intermediate_size: int = 2560


@dataclass
class EuroBert210M(Encoder):
    """EuroBERT-210m (pre-norm, rotary positions, SwiGLU, decoder not tied), 12 layers of 768."""

    architecture: str = "eurobert"
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    max_position_embeddings: int = 8192


@dataclass
class EuroBert610M(EuroBert210M):
    """EuroBERT-610m, 26 layers of 1152, three heads of queries to one of keys."""

    hidden_size: int = 1152
    num_hidden_layers: int = 26
    num_attention_heads: int = 18
    intermediate_size: int = 4096
    config: dict[str, Any] = field(default_factory=lambda: {"num_key_value_heads": 6})


@dataclass
class EuroBert2B(EuroBert610M):
    """EuroBERT-2.1B, 32 layers of 2304, three heads of queries to one of keys."""

    hidden_size: int = 2304
    num_hidden_layers: int = 32
    intermediate_size: int = 6144


@dataclass
class NeoBert(Encoder):
    """NeoBERT as a EuroBERT of 28 layers of 768: without its decoder's bias, weights normal where its were uniform."""

    architecture: str = "eurobert"
    hidden_size: int = 768
    num_hidden_layers: int = 28
    num_attention_heads: int = 12
    intermediate_size: int = 2048
    max_position_embeddings: int = 4096
    config: dict[str, Any] = field(default_factory=lambda: {"initializer_range": 0.02 / 3**0.5})


register("model", modernbert_large=ModernBertLarge)
register("model", ettin_17m=Ettin17M, ettin_32m=Ettin32M, ettin_68m=Ettin68M)
register("model", ettin_150m=ModernBertBase, ettin_400m=ModernBertLarge, ettin_1b=Ettin1B)
register("model", mmbert_small=MmBertSmall, mmbert_base=ModernBertBase)
register("model", crammed_bert=CrammedBert, mosaic_bert_base=MosaicBertBase)
register("model", gpt_bert_small=GptBertSmall, gpt_bert_base=GptBertBase)
register("model", eurobert_210m=EuroBert210M, eurobert_610m=EuroBert610M, eurobert_2b=EuroBert2B)
register("model", neobert=NeoBert)
