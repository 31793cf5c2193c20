"""Tiny masked language models of several architectures, with random weights."""

from typing import Any

import torch
from transformers import AutoConfig, AutoModelForMaskedLM, PreTrainedModel

from tests.objectives.samples import PAD, VOCABULARY
from tiryns.conf.objective.pretraining import MaskedLanguageModeling
from tiryns.runner.models.architectures import registered

registered.register()
OWN = tuple(registered.ARCHITECTURES)
"""Those that are not of transformers."""

ARCHITECTURES = ("bert", "modernbert", "roberta", "electra", "distilbert", "deberta-v2", "albert", *OWN)

SIZES = {
    "hidden_size": 32, "embedding_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 48, "max_position_embeddings": 80, "vocab_size": VOCABULARY, "pad_token_id": PAD,
    "initializer_range": 0.1,
}  # fmt: skip


def tiny(architecture: str = "bert", seed: int = 0, **sizes: object) -> PreTrainedModel:
    """A model without dropout."""
    torch.manual_seed(seed)
    known = AutoConfig.for_model(architecture)
    wanted = {**SIZES, **sizes}
    if architecture == "distilbert":
        wanted = {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 48, **wanted}
    config = AutoConfig.for_model(architecture, **{n: v for n, v in wanted.items() if hasattr(known, n)})
    return AutoModelForMaskedLM.from_config(config).eval()


def taught(
    label: float, teacher: float, temperature: float = 2.0, kind: Any = MaskedLanguageModeling, **more: object
) -> Any:
    """The settings of an objective with a teacher."""
    weights = {"label_weight": label, "teacher_weight": teacher, "teacher_temperature": temperature}
    return kind(**weights, **more)
