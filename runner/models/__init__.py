"""Models: encoders of transformers by config or by name, and the heads that train them."""

from .encoder import build_encoder, load_encoder
from .image_text import build_image_text
from .sparse_head import SparseMaskedLM

__all__ = ["SparseMaskedLM", "build_encoder", "build_image_text", "load_encoder"]
