"""Rates and initial weights by a model's width, with m = `base_width` / width. At the base width all kinds are equal:

    standard   one rate for all
    embedding  embeddings learn 1/m times as fast (arXiv 2605.21486), so the ratio of their rate to the other rates is
               as in muP
    mup        muP of Adam (Tensor Programs V, arXiv 2203.03466, table 8): hidden matrices begin sqrt(m) times as large
               and learn m times as fast, logits are m times as large; all else is unchanged

The factor of the logits lies in the norm before the output embeddings: its weights begin at m and learn m times as fast,
which with Adam equals a factor after the norm. So any program can load the trained model. Heads of labels count as
output layers without such a norm: their weights begin m times as large and learn m times as fast.
"""

from collections.abc import Mapping

import torch
from torch import nn
from transformers import PreTrainedModel

from tiryns.runner.optim.roles import ParamsLike, Part, parts

Scales = dict[str, tuple[float, str]]
"""The factor of each parameter's learning rate, and the label that distinguishes its group."""


def scale_by_width(
    scales: Scales, model: ParamsLike, by_name: Mapping[str, Part], kind: str, base_width: int
) -> Scales:
    """Returns the scales with the factors of a parametrization; raises ValueError if the model has no known width."""
    network, ratio = _network(model, base_width)
    if kind == "embedding":
        factors = {name: 1 / ratio for name, part in by_name.items() if part.role == "embedding"}
    else:
        outputs, norm = _outputs(network)
        out_ids, ids = {id(outputs.weight)}, {id(p) for p in norm.parameters()}
        ids |= {id(part.parameter) for part in by_name.values() if part.role in ("matrix", "head")} - out_ids
        factors = {name: ratio for name, part in by_name.items() if id(part.parameter) in ids}
    changes = {name: factor for name, factor in factors.items() if factor != 1.0}
    return {
        name: (scale * changes.get(name, 1.0), f"{label}/width" if name in changes else label)
        for name, (scale, label) in scales.items()
    }


@torch.no_grad()
def initialise_by_width(model: nn.Module, base_width: int) -> None:
    """Scales a model's initial weights as in muP; raises ValueError if no norm precedes the output embeddings.

    Example:
        >>> from transformers import BertConfig, BertForMaskedLM
        >>> size = {"hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 96, "num_hidden_layers": 1}
        >>> model = BertForMaskedLM(BertConfig(vocab_size=50, **size))
        >>> initialise_by_width(model, base_width=16)
        >>> model.cls.predictions.transform.LayerNorm.weight.unique().tolist()
        [0.25]
        >>> weight = model.bert.encoder.layer[0].attention.self.query.weight
        >>> 0.009 < weight.std() < 0.011
        tensor(True)
    """
    network, ratio = _network(model, base_width)
    outputs, norm = _outputs(network)
    for parameter in norm.parameters():
        parameter.mul_(ratio)
    for parameter, role, _ in parts(network).values():
        if parameter.ndim > 1 and parameter is not outputs.weight:
            parameter.mul_({"matrix": ratio**0.5, "head": ratio}.get(role, 1.0))


def _network(model: ParamsLike, base_width: int) -> tuple[PreTrainedModel, float]:
    """Returns the model of transformers in a module, and the base width divided by its width."""
    for module in model.modules() if isinstance(model, nn.Module) else ():
        if isinstance(module, PreTrainedModel):
            return module, base_width / module.config.get_text_config().hidden_size
    raise ValueError("optimizer.parametrization needs a model of transformers, whose config has its width")


def _outputs(network: PreTrainedModel) -> tuple[nn.Linear, nn.Module]:
    """Returns the output embeddings and the norm before them: the model's last norm, which must have their width."""
    outputs = network.get_output_embeddings()
    norms = [m for m in network.modules() if "norm" in type(m).__name__.lower() and [*m.parameters()]]
    widths = [p.shape[0] for p in norms[-1].parameters()] if norms else []
    if not isinstance(outputs, nn.Linear) or widths[:1] != [outputs.in_features]:
        raise ValueError(
            f"optimizer.parametrization=mup needs output embeddings with a norm before them, and "
            f"{type(network).__name__} has none: use mup in pretraining, or choose parametrization=embedding"
        )
    return outputs, norms[-1]
