"""One set of weights from several: their mean, or a merge by TIES (arXiv 2306.01708). Tensors are read one at a time."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import torch
from omegaconf import OmegaConf
from safetensors.torch import load_file
from torch import Tensor

from tiryns.runner.checkpoints.files import AtomicCheckpointIO, damage_of
from tiryns.runner.run.yaml_files import read_config
from tiryns.runner.widening import at_least_fp32

PRETRAINED = "model.pretrained."
"""Prefix of the names of exported weights in a checkpoint."""

NO_MEAN = (
    "and the mean of products is not the product of means: average folders with model.adapter_export=merged"
)


class Source(NamedTuple):
    """A checkpoint, or the folder of an exported model, with its weights by the names of the export."""

    path: Path
    tensors: dict[str, Tensor]


def read_folder(folder: Path) -> Source:
    """Returns the weights of a model folder; raises ValueError without `*.safetensors`."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ValueError(f"there is no model in {str(folder)!r}: expected config.json and *.safetensors")
    if (folder / "adapter_config.json").is_file():
        raise ValueError(f"{str(folder)!r} holds an adapter alone, {NO_MEAN}")
    return Source(folder, {name: tensor for file in files for name, tensor in load_file(file).items()})


def read_checkpoint(path: Path, ema: bool) -> Source:
    """Returns the weights in a checkpoint; if `ema`, the running average in place of each weight that has one.

    Raises ValueError for a checkpoint that is damaged, that has no average for `ema`, or that belongs to a user's own
    LightningModule, to a model with an adapter, or to a model whose embedding tables are differences.
    """
    if (damage := damage_of(path)) is not None:
        raise ValueError(f"the checkpoint {str(path)!r} is damaged: {damage}")
    if path.is_dir():
        checkpoint = AtomicCheckpointIO().load_checkpoint(path)
    else:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    state = dict(checkpoint["state_dict"])
    if ema:
        optimizer = checkpoint["optimizer_states"][0]
        averages = {
            f"model.{name}": optimizer["state"][number]["average"]
            for group in optimizer["param_groups"]
            for name, number in zip(group["param_names"], group["params"], strict=True)
            if "average" in optimizer["state"].get(number, {})
        }
        if not averages:
            raise ValueError(
                f"--ema: {str(path)!r} holds no average of its weights; module.ema=0.999 keeps one"
            )
        state |= averages
    plain = {name.replace("_orig_mod.", ""): tensor for name, tensor in state.items()}
    tensors = {n.removeprefix(PRETRAINED): t for n, t in plain.items() if n.startswith(PRETRAINED)}
    if not tensors:
        raise ValueError(f"{str(path)!r} is of a LightningModule of your own: average the folders it exports")
    if any(".lora_A." in name for name in tensors):
        raise ValueError(f"{str(path)!r} is of a model with an adapter, {NO_MEAN}")
    config = path.parent.parent / "config.yaml"
    if config.is_file() and OmegaConf.select(read_config(config), "objective.shared_embeddings") == "gdes":
        raise ValueError(
            f"{str(path)!r} is of a run with objective.shared_embeddings=gdes, whose tables are differences from its "
            "generator's: write folders with `tiryns consolidate`, which can be averaged if they hold one network"
        )
    return Source(path, tensors)


def check_alike(template: Source, sources: Sequence[Source]) -> None:
    """Raises ValueError, with the first difference, unless all sources have the tensors and shapes of the template.

    A checkpoint may have more names than the template, as it has a tied weight under each of its names.
    """
    for source in sources:
        for name in [*template.tensors, *(source.tensors if source.path.suffix != ".ckpt" else ())]:
            for one, other in ((source, template), (template, source)):
                if name not in one.tensors:
                    raise ValueError(
                        f"{str(one.path)!r} has no {name!r}, which {str(other.path)!r} has; all must be one model"
                    )
            shape, other_shape = (tuple(one.tensors[name].shape) for one in (template, source))
            if shape != other_shape:
                raise ValueError(
                    f"{name!r} has shape {shape} in {str(template.path)!r}, {other_shape} in {str(source.path)!r}; "
                    "all must be one model"
                )


def combinations(
    template: Source, sources: Sequence[Source], combine: Callable[[str, list[Tensor]], Tensor]
) -> Iterator[tuple[str, Tensor]]:
    """Yields each name in the template with the combination of its tensors; a tied weight is yielded once."""
    for name in template.tensors:
        yield name, combine(name, [source.tensors[name] for source in sources]).contiguous()


def averaged_dtype(tensors: Sequence[Tensor]) -> torch.dtype:
    """Returns the widest type of the tensors, at least fp32: half precision would round a mean to one of its inputs."""
    return reduce(torch.promote_types, [at_least_fp32(tensor.dtype) for tensor in tensors])


def name_dtype(file: Path, tensors: Iterable[Tensor]) -> dict[str, Any]:
    """Writes the dtype of a model's weights into its config `file`, which transformers reads; returns the config."""
    config: dict[str, Any] = json.loads(file.read_text())
    config.pop("torch_dtype", None)
    floats = [tensor for tensor in tensors if tensor.is_floating_point()]
    config["dtype"] = str(averaged_dtype(floats)).removeprefix("torch.")
    file.write_text(json.dumps(config, indent=2) + "\n")
    return config


def mean(tensors: Sequence[Tensor], shares: Sequence[float]) -> Tensor:
    """Returns the weighted mean in at least fp32; the mean of integer tensors is rounded down.

    Example:
        >>> mean([torch.tensor([1.0]), torch.tensor([4.0])], [2, 1])
        tensor([2.])
        >>> mean([torch.tensor([1]), torch.tensor([4])], [1, 1])
        tensor([2])
    """
    exact = tensors[0].is_floating_point()
    total = torch.zeros(tensors[0].shape, dtype=averaged_dtype(tensors) if exact else torch.float64)
    for tensor, share in zip(tensors, shares, strict=True):
        total.add_(tensor.to(total.dtype), alpha=share)
    total /= sum(shares)
    return total if exact else total.floor_().to(tensors[0].dtype)


def ties(
    base: Tensor, tensors: Sequence[Tensor], shares: Sequence[float], density: float, scale: float
) -> Tensor:
    """Merges tensors by their differences from a base, in at least fp32; returns a `base` of integers unchanged.

    Each difference keeps the share `density` of its entries, the largest by magnitude, at least one. A weight moves by
    `scale` times the weighted mean of its differences that have the sign of their weighted sum (0 counts as +).

    Example:
        >>> base = torch.zeros(3)
        >>> tensors = [torch.tensor([4.0, 1.0, 0.5]), torch.tensor([2.0, -3.0, 0.5])]
        >>> ties(base, tensors, [1, 1], density=0.67, scale=1.0)
        tensor([ 3., -3.,  0.])
    """
    if not base.is_floating_point():
        return base
    start = base.to(averaged_dtype([base, *tensors]))
    deltas = torch.stack([_largest(tensor.to(start.dtype) - start, density) for tensor in tensors])
    weights = torch.tensor(shares, dtype=start.dtype).reshape(-1, *[1] * base.ndim)
    weighted_deltas = deltas * weights
    sign = (weighted_deltas.sum(0) >= 0) * 2 - 1
    agrees = weighted_deltas.sign() == sign
    divisor = (weights * agrees).sum(0)
    divisor = torch.where(divisor == 0, torch.ones_like(divisor), divisor)
    return start + scale * (weighted_deltas * agrees).sum(0) / divisor


def _largest(delta: Tensor, density: float) -> Tensor:
    count = max(1, int(density * delta.numel()))
    largest = torch.zeros_like(delta).flatten()
    places = delta.abs().flatten().argsort(descending=True, stable=True)[:count]
    largest[places] = delta.flatten()[places]
    return largest.reshape(delta.shape)
