"""Models: encoders of transformers by config or by name, and the heads that train them."""

from iolaus.runner.models.encoder import build_encoder, load_encoder
from iolaus.runner.models.sparse_head import SparseMaskedLM
from iolaus.runner.models.task_model import TaskModel
from iolaus.runner.models.vision.image_text import build_image_text

__all__ = ["SparseMaskedLM", "TaskModel", "build_encoder", "build_image_text", "load_encoder"]
