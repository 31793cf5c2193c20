"""The base class of the LightningModules: a task model, its placement and compilation, and sums over ranks."""

import contextlib
from typing import Any

import lightning.pytorch as pl
import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule

from tiryns.runner.data.replicas import gathered, replica_of
from tiryns.runner.loop.sharding import PLAIN, ShardedStrategy, gather, shard
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.optim import loop_needs
from tiryns.runner.protocols import RunData, RunModule


class ModelModule(pl.LightningModule, RunModule):
    """Holds `model`, which maps a micro-batch to the *sum* of its losses."""

    model: TaskModel

    def __init__(self, model: TaskModel, compile_model: bool, gradient_checkpointing: bool) -> None:
        super().__init__()
        self.model, self.compile_model = model, compile_model
        self.compiled = False
        """Whether the model is compiled, as `compile_model` has asked for until then."""
        self._evaluation = contextlib.ExitStack()
        if gradient_checkpointing:
            model.recompute_activations()

    @property
    def datamodule(self) -> Any:
        """The trainer's data module; without one, data that has nothing."""
        found = getattr(self._trainer, "datamodule", None)
        return RunData() if found is None else found

    def configure_model(self) -> None:
        """Shards the model where the strategy asks for it, and compiles the compute core."""
        if self.device_mesh is not None and not isinstance(self.model, FSDPModule):
            strategy = self.trainer.strategy
            layout = strategy.layout if isinstance(strategy, ShardedStrategy) else PLAIN
            shard(self.model, self.device_mesh, layout)
        if self.compile_model:
            self.model.compile_core()
            self.compile_model, self.compiled = False, True

    def sum_over_ranks(self, values: dict[str, float]) -> dict[str, float]:
        """Each value added up over all ranks, in float64, in the memory of the host: nobody waits for a GPU."""
        _, size, group = replica_of(self.trainer)
        if size == 1:
            return values
        packed = torch.tensor(list(values.values()), dtype=torch.float64)
        torch.distributed.all_reduce(packed, group=group)
        return dict(zip(values, packed.tolist(), strict=True))

    def joined_sums(self, sums: dict[str, Tensor]) -> dict[str, float]:
        """Sums over an evaluated set, over all ranks; those of a tensor are `name/0`, `name/1` and so on."""
        values = {name: float(value) for name, value in sums.items() if not value.dim()}
        several = {name: value.tolist() for name, value in sums.items() if value.dim()}
        values |= {f"{name}/{i}": value for name, each in several.items() for i, value in enumerate(each)}
        return self.sum_over_ranks(values)

    def publish(self, figures: dict[str, float], **options: Any) -> None:
        """Logs the figures of an evaluation, in full: Lightning would make float32 of a float."""
        self.log_dict({n: torch.tensor(v, dtype=torch.float64) for n, v in figures.items()}, **options)

    def gather_objects(self, mine: object) -> list[Any]:
        """The objects of all ranks, on every rank."""
        return gathered(mine, replica_of(self.trainer))

    def gathered_weights(self) -> dict[str, Tensor] | None:
        """The weights that the first rank exports, where each rank has a shard of them, else None; collective."""
        if self.device_mesh is None:
            return None
        with self.evaluation_weights():
            return gather(self.model.pretrained.state_dict(), self.trainer.is_global_zero)

    def evaluation_weights(self) -> contextlib.AbstractContextManager[None]:
        """A context in which the parameters are those to evaluate and export, where an optimizer keeps two sets."""
        optimizers = self.trainer.optimizers
        return loop_needs(optimizers[0]).evaluation() if optimizers else contextlib.nullcontext()

    def begin_evaluation(self) -> None:
        """Switches to the weights to evaluate, until the evaluation ends."""
        self._evaluation.enter_context(self.evaluation_weights())

    def end_evaluation(self) -> None:
        """Switches back to the weights that are trained; may be repeated."""
        self._evaluation.close()

    def on_validation_end(self) -> None:
        """Switches back to the weights that are trained."""
        self.end_evaluation()

    on_test_end = on_validation_end


def check_same_model(ours: dict[str, Tensor], saved: dict[str, Tensor]) -> None:
    """Raises ValueError, naming the first difference, unless a checkpoint holds the weights of this very model."""
    for name in {**ours, **saved}:
        if name not in saved:
            difference = f"it has no {name!r}"
        elif name not in ours:
            difference = f"it has {name!r}, which this one lacks"
        elif saved[name].shape != ours[name].shape:
            difference = (
                f"{name!r} has shape {tuple(saved[name].shape)} there, {tuple(ours[name].shape)} here"
            )
        else:
            continue
        raise ValueError(f"the checkpoint is of another model: {difference}")
