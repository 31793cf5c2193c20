"""Published initialisations of matrices and embeddings; biases and norms keep the values of transformers (0 and 1).

Each draws from a normal distribution, truncated at two standard deviations. These are, for width d and L layers:

    megatron  0.02, for projections back to the residual stream 0.02 / sqrt(2 L), for an untied decoder 1 / sqrt(d)
              (ModernBERT's `full_megatron`; 0.02 is the config's `initializer_range`)
    gpt_bert  sqrt(2 / (5 d)), for feed-forward matrices of layer i (from 0) times sqrt(1 / (2 (1 + i)))
"""

import math
import re

import torch
from torch import nn
from transformers import PreTrainedModel

from tiryns.runner.optim.roles import Part, parts

OUT = re.compile(r"(?:^|\.)(?:Wo|o_proj|out_proj|out_lin|lin2|down_proj|fc2|c_proj|output\.dense)\.weight$")
"""Names of matrices that project back to the residual stream, of attention and of the feed-forward layer."""

ATTENTION = re.compile(r"att(?:e)?n")


@torch.no_grad()
def initialise(model: PreTrainedModel, scheme: str) -> None:
    """Draws all matrices and embeddings again, by `scheme`; the embedding of padding stays 0.

    Raises:
        ValueError: the layers of this architecture have other names than the scheme knows.
    """
    parts_by_name = parts(model)
    _check_layers(parts_by_name, scheme, model.config.model_type)
    width, layers = model.config.hidden_size, model.config.num_hidden_layers
    paddings = {
        id(module.weight): module.padding_idx
        for module in model.modules()
        if isinstance(module, nn.Embedding) and module.padding_idx is not None
    }
    outputs = model.get_output_embeddings()
    decoder = getattr(outputs, "weight", None)
    for name, (parameter, role, place) in parts_by_name.items():
        if role not in ("embedding", "matrix", "projection", "head") or parameter.ndim < 2:
            continue
        if scheme == "gpt_bert":
            std = math.sqrt(2 / (5 * width))
            if place.layer is not None and not ATTENTION.search(name):
                std *= math.sqrt(1 / (2 * (1 + place.layer)))
        else:
            std = model.config.initializer_range
            if place.layer is not None and OUT.search(name):
                std /= math.sqrt(2 * layers)
            elif parameter is decoder and role == "head":  # a tied one is an embedding
                std = width**-0.5
        nn.init.trunc_normal_(parameter, std=std, a=-2 * std, b=2 * std)
        if id(parameter) in paddings:
            parameter[paddings[id(parameter)]] = 0


def _check_layers(parts_by_name: dict[str, Part], scheme: str, architecture: str) -> None:
    """Raises ValueError unless each layer has two projections back (gpt_bert: matrices inside and outside attention)."""
    layers: dict[tuple[str, int], list[str]] = {}
    for name, part in parts_by_name.items():
        if part.place.layer is not None and part.role == "matrix":
            layers.setdefault((part.place.tower, part.place.layer), []).append(name)
    for names in layers.values():
        out = [name for name in names if OUT.search(name)]
        inside = [name for name in names if ATTENTION.search(name)]
        fits = len(out) == 2 if scheme == "megatron" else 0 < len(inside) < len(names)
        if not fits:
            raise ValueError(
                f"model.init={scheme}: the layers of {architecture!r} have matrices of other names "
                f"than the scheme knows ({', '.join(names[:4])}); use model.init=default"
            )
