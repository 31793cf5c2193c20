"""The base class of the LightningModules: a task model, its placement and compilation, and sums over ranks.

Further down are helpers of the steps: checks of a checkpoint, losses by source, and seeds.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import lightning.pytorch as pl
import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule
from torch.optim import Optimizer

from tiryns.runner.data.micro_batch import MicroBatch
from tiryns.runner.data.replicas import gather_objects, replica_of
from tiryns.runner.loop.sharding import PLAIN, ShardedStrategy, gather, shard
from tiryns.runner.models.task_model import Output, TaskModel
from tiryns.runner.optim import loop_needs
from tiryns.runner.patches.lightning import keep_batches_whole
from tiryns.runner.patches.torch.optimizers import unscales_itself
from tiryns.runner.protocols import RunData, RunModule


class ModelModule(pl.LightningModule, RunModule):
    """Holds `model`, which maps a micro-batch to the *sum* of its losses."""

    model: TaskModel

    def __init__(self, model: TaskModel, compile_model: bool, gradient_checkpointing: bool) -> None:
        super().__init__()
        self.model, self.compile_model = model, compile_model
        self.compiled = False
        """Whether the model is compiled; compiling resets `compile_model` to False."""
        self._evaluation = contextlib.ExitStack()
        if gradient_checkpointing:
            model.recompute_activations()

    @property
    def datamodule(self) -> Any:
        """The trainer's data module; without one, an empty `RunData`."""
        data = getattr(self._trainer, "datamodule", None)
        return RunData() if data is None else data

    def setup(self, stage: str) -> None:
        """Keeps batches out of half precision."""
        keep_batches_whole(self.trainer)

    def configure_model(self) -> None:
        """Shards the model where the strategy asks for it, and compiles the compute core."""
        if self.device_mesh is not None and not isinstance(self.model, FSDPModule):
            strategy = self.trainer.strategy
            layout = strategy.layout if isinstance(strategy, ShardedStrategy) else PLAIN
            shard(self.model, self.device_mesh, layout)
        if self.compile_model:
            self.model.compile_core()
            self.compile_model, self.compiled = False, True

    def loss_scaler(self) -> torch.amp.GradScaler | None:
        """Returns the scaler of fp16 gradients, which stay scaled until the optimizer's step; None if not fp16."""
        return getattr(self.trainer.precision_plugin, "scaler", None)

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        """Unscales fp16 gradients if Lightning has left this to the optimizer."""
        if (scaler := self.loss_scaler()) is not None and unscales_itself(optimizer):
            scaler.unscale_(optimizer)

    def sum_over_ranks(self, values: dict[str, float]) -> dict[str, float]:
        """Sums each value over all ranks, in float64, in the memory of the host, so that nothing waits for a GPU."""
        _, size, group = replica_of(self.trainer)
        if size == 1:
            return values
        sums = torch.tensor(list(values.values()), dtype=torch.float64)
        torch.distributed.all_reduce(sums, group=group)
        return dict(zip(values, sums.tolist(), strict=True))

    def joined_sums(self, sums: dict[str, Tensor]) -> dict[str, float]:
        """Adds up the sums of an evaluated set over all ranks; elements of a tensor are `name/0`, `name/1` and so on."""
        values = {name: float(value) for name, value in sums.items() if not value.dim()}
        several = {name: value.tolist() for name, value in sums.items() if value.dim()}
        values |= {f"{name}/{i}": value for name, each in several.items() for i, value in enumerate(each)}
        return self.sum_over_ranks(values)

    def publish(self, figures: dict[str, float], **options: Any) -> None:
        """Logs the metrics of an evaluation in float64; Lightning would turn a Python float into float32."""
        self.log_dict({n: torch.tensor(v, dtype=torch.float64) for n, v in figures.items()}, **options)

    def gather_objects(self, mine: object) -> list[Any]:
        """Returns the objects of all ranks, on every rank."""
        return gather_objects(mine, replica_of(self.trainer))

    def gathered_weights(self) -> dict[str, Tensor] | None:
        """Returns a sharded model's whole weights on the first rank, for export; None if not sharded. Collective."""
        if self.device_mesh is None:
            return None
        with self.evaluation_weights():
            return gather(self.model.pretrained.state_dict(), self.trainer.is_global_zero)

    def evaluation_weights(self) -> contextlib.AbstractContextManager[None]:
        optimizers = self.trainer.optimizers
        return loop_needs(optimizers[0]).evaluation() if optimizers else contextlib.nullcontext()

    def begin_evaluation(self) -> None:
        """Switches to the weights to evaluate, until the evaluation ends."""
        self._evaluation.enter_context(self.evaluation_weights())

    def end_evaluation(self) -> None:
        self._evaluation.close()

    on_validation_end = on_test_end = end_evaluation


def check_same_model(weights: dict[str, Tensor], saved: dict[str, Tensor]) -> None:
    """Raises ValueError for the first weight whose name or shape differs between the model and a checkpoint."""
    here, there = ({name: tuple(t.shape) for name, t in state.items()} for state in (weights, saved))
    if wrong := next((name for name in {**here, **there} if here.get(name) != there.get(name)), None):
        shapes = f"{wrong!r} has shape {there.get(wrong)} there, {here.get(wrong)} here"
        raise ValueError(f"the checkpoint is of another model: {shapes}")


class SourceLosses:
    """Adds up losses and weights of the samples of each source over the micro-batches of a step, in float64.

    They are empty if the model does not return losses by row.

    Example:
        >>> losses = SourceLosses(["few", "many"], torch.device("cpu"))
        >>> rows = {"loss": torch.tensor([6.0, 1.0, 2.0]), "weight": torch.tensor([2.0, 1.0, 1.0])}
        >>> losses.add({"sources": torch.tensor([1, 1, 1])}, {"row_sums": rows})
        >>> losses.figures(lambda sums: sums)
        {'train/loss/many': 2.25}
    """

    def __init__(self, names: Sequence[str], device: torch.device) -> None:
        self._names = list(names)
        self._sums = torch.zeros((2, len(self._names)), dtype=torch.float64, device=device)

    def add(self, micro_batch: MicroBatch, output: Output) -> None:
        """Adds a micro-batch with the `sources` of its rows; does not wait for the device."""
        if "row_sums" in output:
            rows: Mapping[str, Tensor] = output["row_sums"]
            sums = torch.stack([rows[name].detach().double() for name in ("loss", "weight")])
            self._sums.index_add_(1, micro_batch["sources"], sums)

    def figures(self, sum_over_ranks: Callable[[dict[str, float]], dict[str, float]]) -> dict[str, float]:
        """Returns `train/loss/<source>` for each source with a target in the step, over all ranks; collective."""
        keys = [(kind, name) for kind in ("loss", "weight") for name in self._names]
        sums = zip(map("/".join, keys), self._sums.flatten().tolist(), strict=True)
        totals = sum_over_ranks(dict(sums))
        weights = {name: totals[f"weight/{name}"] for name in self._names}
        return {
            f"train/loss/{n}": totals[f"loss/{n}"] / weight for n, weight in weights.items() if weight > 0
        }


def step_seed(seed: int, step: int, rank: int) -> int:
    """Returns a seed for dropout and the like, a function of (seed, step, rank) alone, so no state need be saved."""
    bits = (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + rank * 0x94D049BB133111EB) % 2**64
    bits = (bits ^ (bits >> 31)) * 0xD6E8FEB86659FD93 % 2**64
    return (bits ^ (bits >> 32)) % 2**63


def seed_generators(seed: int, device: torch.device) -> None:
    """Seeds the generators of a step; on a CPU or CUDA without `torch.manual_seed`.

    That call takes 2 ms, and keeps the seed with a traceback for each kind of accelerator that is not there.
    """
    if device.type not in ("cpu", "cuda"):
        torch.manual_seed(seed)
        return
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
