"""Models: encoders of transformers by config or by name, and the heads that train them."""

from .encoder import build_encoder, load_encoder
from .sparse_head import SparseMaskedLM

__all__ = ["SparseMaskedLM", "build_encoder", "load_encoder"]
