"""Training in shards: FSDP2, and tensor parallelism where a model has a plan for it.

Every transformer layer is one shard unit; all other modules (embeddings, head) are one more. Every rank writes its own
shards (`runner.checkpoints.sharded`); any number of processes can resume. Only the export gathers whole weights.
"""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from lightning.pytorch.strategies import ModelParallelStrategy, Strategy
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.optim import Optimizer
from transformers.modeling_layers import GradientCheckpointingLayer

from tiryns.runner.checkpoints.sharded import read_shares
from tiryns.runner.models.adapters import is_adapted
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.optim.compiled import factor_to
from tiryns.runner.optim.groups import parameters_of
from tiryns.runner.patches.torch import foreach
from tiryns.runner.patches.torch.shards import place_of
from tiryns.runner.protocols import State

SHARDABLE = ("adam", "adamw", "adagrad", "lion", "rmsprop", "sgd")
"""Optimizers that treat each weight by itself, and so need not see a whole matrix or its norm."""

STYLES = {"colwise": ColwiseParallel, "rowwise": RowwiseParallel}


class Layout(NamedTuple):
    """How a model is kept in shards: the settings `trainer.fsdp_*`."""

    replicas: int = 1
    reshard: bool = True
    prefetch: int = 0
    param_dtype: torch.dtype | None = None
    """The dtype in which weights are used; None for their own dtype. If set, gradients are summed in fp32."""


PLAIN = Layout()


def shard(model: TaskModel, mesh: DeviceMesh, layout: Layout = PLAIN) -> None:
    """Splits a model's matrices over `tensor_parallel`, then shards it over `data_parallel`; each rank passes it whole.

    Raises ValueError for an `unshardable` model, or a model without a plan for its matrices.
    """
    if model.unshardable:
        raise ValueError(f"trainer=fsdp: {model.unshardable}; use trainer=ddp")
    over: str | tuple[str, str] = "data_parallel"
    if layout.replicas > 1:
        mesh, over = with_replicas(mesh, layout.replicas), ("replicas", "shards")
    if mesh["tensor_parallel"].size() > 1:
        split_matrices(model, mesh["tensor_parallel"])
    layers: list[Any] = [m for m in model.pretrained.modules() if isinstance(m, GradientCheckpointingLayer)]
    # whose inputs stay as autocast makes them, and figures of labels as they are read
    reduce_dtype = layout.param_dtype and torch.float32
    policy = MixedPrecisionPolicy(layout.param_dtype, reduce_dtype, cast_forward_inputs=False)
    for part in [*reversed(layers), model]:  # inner ones first
        reshard = layout.reshard and part is not model
        fully_shard(part, mesh=mesh[over], reshard_after_forward=reshard, mp_policy=policy)
    for number, layer in enumerate(layers if layout.prefetch else ()):
        layer.set_modules_to_forward_prefetch(layers[number + 1 :][: layout.prefetch])
        layer.set_modules_to_backward_prefetch(layers[:number][::-1][: layout.prefetch])
    if hasattr(model, "generate"):
        register_fsdp_forward_method(model, "generate")  # so that its weights are whole there too


def with_replicas(mesh: DeviceMesh, count: int) -> DeviceMesh:
    """Returns a mesh with `data_parallel` split into [replicas, shards]; neighbouring ranks belong to one replica."""
    ranks = mesh.mesh.unflatten(0, (count, -1))
    return DeviceMesh(mesh.device_type, ranks, mesh_dim_names=("replicas", "shards", "tensor_parallel"))


def split_matrices(model: TaskModel, mesh: DeviceMesh) -> None:
    """Splits matrices by the plan of transformers; ValueError without a plan, or if heads or widths cannot be divided."""
    body = model.pretrained
    config = body.config
    plan, setting = getattr(config, "base_model_tp_plan", None), f"trainer.tensor_parallel_size={mesh.size()}"
    if is_adapted(body):
        raise ValueError(f"{setting}: matrices with an adapter beside them are not split; use 1")
    if not plan or not set(plan.values()) <= set(STYLES):
        raise ValueError(
            f"{setting}: transformers has no plan to split the matrices of {config.model_type}; use 1, or a model such "
            "as model.architecture=eurobert"
        )
    for name in ("num_attention_heads", "num_key_value_heads", "intermediate_size"):
        if (size := getattr(config, name, None) or 0) % mesh.size():
            raise ValueError(f"{setting} does not divide the model's {name}={size}")
    model.compute_all_tokens()  # parts of a layer take and give shards
    parallelize_module(body.base_model, mesh, {name: STYLES[style]() for name, style in plan.items()})


def synchronise(model: nn.Module, whether: bool) -> None:
    """Sets whether the next backward pass of a sharded model adds up gradients over the ranks."""
    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(whether)


def check_shardable(optimizer: Optimizer) -> None:
    """Raises ValueError for an optimizer that is not in `SHARDABLE`, as it may need whole matrices."""
    kind = str(optimizer.param_groups[0].get("optimizer", type(optimizer).__name__))
    if kind not in SHARDABLE:
        raise ValueError(
            f"the optimizer {kind} needs whole matrices, or keeps a state that cannot be cut; with trainer=fsdp use "
            f"one of {', '.join(SHARDABLE)}, or train with trainer=ddp"
        )


def clip_shards(parameters: Iterable[nn.Parameter], limit: float) -> Tensor:
    """Scales sharded gradients down to the total norm `limit`; returns the norm before, 0-dim, equal on all ranks."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    meshes: dict[DeviceMesh | None, list[Tensor]] = {}
    for gradient in gradients:
        meshes.setdefault(getattr(gradient, "device_mesh", None), []).append(gradient)
    norms = [whole(torch.nn.utils.get_total_norm(part)) for part in meshes.values()]
    norm: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    if math.isfinite(limit):
        factor = factor_to(limit, norm)
        foreach.mul_([g.to_local() if isinstance(g, DTensor) else g for g in gradients], factor)
    return norm


def whole(tensor: Tensor) -> Tensor:
    """Returns a sharded tensor gathered from all ranks, another tensor unchanged; all ranks must call it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def gather(state: Mapping[str, Tensor], keep: bool) -> dict[str, Any]:
    """Returns the state. Its shards become whole CPU tensors, or None without `keep`; ties stay. All ranks call it."""
    tensors: dict[int, Tensor | None] = {}
    whole_state: dict[str, Any] = dict(state)
    for name, value in state.items():
        if isinstance(value, DTensor):
            key = value.to_local().data_ptr() if value.to_local().numel() else id(value)
            if key not in tensors:
                full = whole(value.detach())
                tensors[key] = full.cpu() if keep else None
            whole_state[name] = tensors[key]
    return whole_state


def own_share(full: Tensor, like: Tensor) -> Tensor:
    """Returns this rank's shard of a whole or sharded tensor, cut like `like`; the whole tensor if `like` is whole."""
    if isinstance(full, DTensor):
        return full.to_local()
    if not isinstance(like, DTensor):
        return full
    return full[place_of(like)].to(like.to_local().device)


class ShardedStrategy(ModelParallelStrategy):
    """Lightning's model parallelism, with the project's own checkpoints: written in shards, read in shards or whole."""

    def __init__(self, layout: Layout, *sizes: int, **options: object) -> None:
        super().__init__(*sizes, **options)  # type: ignore[arg-type]
        self.layout = layout

    @property
    def lightning_restore_optimizer(self) -> bool:
        """True: Lightning gives the saved state to `load_optimizer_state_dict`."""
        return True

    def lightning_module_state_dict(self) -> State:
        """Returns this rank's shards of the weights."""
        assert self.lightning_module is not None
        return self.lightning_module.state_dict()

    def optimizer_state(self, optimizer: Optimizer) -> State:
        """Returns the optimizer's state for this rank's shards, in the format of a run in one process."""
        return getattr(optimizer, "optimizer", optimizer).state_dict()

    def save_checkpoint(
        self, checkpoint: State, filepath: str | Path, storage_options: object = None
    ) -> None:
        """Writes this rank's shards; all ranks must call it."""
        self.checkpoint_io.save_shards(checkpoint, Path(filepath), self.is_global_zero)  # type: ignore[attr-defined]

    def load_checkpoint(self, checkpoint_path: str | Path, weights_only: bool | None = None) -> State:
        """Returns this rank's share of a sharded checkpoint, or all of a checkpoint of whole tensors."""
        path = Path(checkpoint_path)
        if not path.is_dir():
            return Strategy.load_checkpoint(self, path, weights_only)
        self.checkpoint_io.wait()  # type: ignore[attr-defined]
        parameters = list(map(parameters_of, self.optimizers))
        return read_shares(path, self.lightning_module_state_dict(), parameters)

    @torch.no_grad()
    def load_model_state_dict(self, checkpoint: Mapping[str, Any], strict: bool = True) -> None:
        """Loads this rank's shard of every weight."""
        for name, tensor in self.lightning_module_state_dict().items():
            local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
            local.copy_(own_share(checkpoint["state_dict"][name], tensor))

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        """Loads optimizer states; a state with the shape of its weight is cut to this rank's shard."""
        for optimizer, state_dict in zip(self.optimizers, checkpoint["optimizer_states"], strict=True):
            parameters = parameters_of(optimizer)
            state = {
                number: {name: _as_shard(value, parameters[number]) for name, value in entries.items()}
                for number, entries in state_dict["state"].items()
            }
            optimizer.load_state_dict({**state_dict, "state": state})


def _as_shard(value: object, parameter: Tensor) -> object:
    """Returns this rank's shard of a whole state with the shape of its sharded weight; any other value unchanged."""
    if not isinstance(value, Tensor) or isinstance(value, DTensor) or not isinstance(parameter, DTensor):
        return value
    if value.shape != parameter.shape:
        return value
    share, mesh, placements = own_share(value, parameter).clone(), parameter.device_mesh, parameter.placements
    shape, stride = parameter.shape, parameter.stride()
    return DTensor.from_local(share, mesh, placements, run_check=False, shape=shape, stride=stride)
