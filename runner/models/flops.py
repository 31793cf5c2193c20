"""Floating point operations of a step and of a device, for model FLOPs utilisation (arXiv 2204.02311, appendix B).

The backward pass counts as two forward passes, or one for a frozen matrix, which needs no gradient of its own.
Recomputed activations and padding do not count.
"""

from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor, nn
from transformers import PreTrainedModel

if TYPE_CHECKING:
    from tiryns.runner.data.micro_batch import Share
    from tiryns.runner.models.task_model import TaskModel

PEAK_TFLOPS = {
    "GB200": 2500.0, "B300": 2250.0, "B200": 2250.0,
    "H200": 989.0, "H100 PCIe": 756.0, "H100 NVL": 835.0, "H100": 989.0, "H800": 989.0,
    "A100": 312.0, "A800": 312.0, "A40": 149.7, "A10G": 70.0, "A10": 125.0,
    "L40S": 362.0, "L40": 181.0, "L4": 121.0, "V100": 125.0, "T4": 65.0,
    "RTX 5090": 209.5, "RTX 4090": 165.2, "RTX 3090": 71.0, "RTX 6000 Ada": 364.0,
    "MI355X": 2300.0, "MI325X": 1307.0, "MI300X": 1307.0, "MI250X": 383.0,
}  # fmt: skip
"""Dense tensor throughput in half precision by a part of the device's name, from data sheets; the first match counts."""


class FlopCounts(NamedTuple):
    """Floating point operations of forward and backward."""

    per_token: float
    """For each token: the matrices of encoders and decoders."""
    per_pair: float
    """For each pair of tokens of one sample: attention. Layers with a sliding window are left out."""
    per_target: float
    """For each target: the head's matrices."""
    per_image: float = 0.0
    """For each image of the size of the model's example image: the vision tower."""

    def step(self, tokens: float, token_pairs: float, targets: float, images: float = 0.0) -> float:
        """Returns the operations of a step."""
        amounts = (tokens, token_pairs, targets, images)
        return float(sum(each * amount for each, amount in zip(self, amounts, strict=True)))

    def plus(self, other: "FlopCounts") -> "FlopCounts":
        """Returns the counts of two networks that both run."""
        return FlopCounts(*(first + second for first, second in zip(self, other, strict=True)))


def network_flops(model: nn.Module) -> FlopCounts:
    """Counts operations of all models of transformers in a module, heads included; counts other matrices per token."""
    networks = list(outermost(model))
    inside = {id(p) for network in networks for p in network.parameters()}
    tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    others = (p for p in model.parameters() if id(p) not in inside | tables and p.dim() >= 2)
    total = FlopCounts(sum(map(_operations, others)), 0.0, 0.0)
    return reduce(FlopCounts.plus, map(count_flops, networks), total)


def outermost(model: nn.Module) -> Iterator[PreTrainedModel]:
    """Yields the models of transformers in a module that are not parts of another one."""
    if isinstance(model, PreTrainedModel):
        yield model
    else:
        for child in model.children():
            yield from outermost(child)


def step_flops(model: "TaskModel", counts: FlopCounts, share: "Share") -> float:
    """Returns the operations of one rank's share of a global batch."""
    micro_batches = share["micro_batches"]
    targets, images = (sum(map(count, micro_batches)) for count in (model.head_tokens, model.num_images))
    return counts.step(share["tokens"], share["token_pairs"], targets, images)


def count_flops(pretrained: PreTrainedModel) -> FlopCounts:
    """Counts operations by parameters and config; in a vision-language model counts only those of the language model."""
    sees = hasattr(pretrained.config, "vision_config")
    encoder = pretrained.get_decoder() if sees else pretrained.base_model
    tables = {id(m.weight) for m in encoder.modules() if isinstance(m, nn.Embedding)}
    inside = {id(p) for p in encoder.parameters()}
    matrices = [p for p in encoder.parameters() if p.dim() >= 2 and id(p) not in tables]
    heads = [pretrained.get_output_embeddings()] if sees else pretrained.modules()
    head = [m.weight for m in heads if isinstance(m, nn.Linear)]
    head = [w for w in head if id(w) not in inside or id(w) in tables]  # a tied decoder multiplies the table
    config = pretrained.config.get_text_config()
    kinds = getattr(config, "layer_types", None) or ["full_attention"] * config.num_hidden_layers
    layers = sum(kind == "full_attention" for kind in kinds)
    per_token, per_target = (sum(map(_operations, weights)) for weights in (matrices, head))
    return FlopCounts(per_token, 12.0 * layers * config.hidden_size, per_target)


def _operations(matrix: Tensor) -> float:
    """Returns the operations of a matrix for each row that it multiplies."""
    return (6.0 if matrix.requires_grad else 4.0) * matrix.numel()


def peak_flops(device_name: str, precision: str) -> float | None:
    """Returns one device's operations per second in a half precision; None for other precisions and unknown devices."""
    if not precision.startswith(("bf16", "16-")):
        return None
    return next((peak * 1e12 for name, peak in PEAK_TFLOPS.items() if name in device_name), None)
