"""Measures by running a part of a step: time and memory by purpose, and the micro-batch that fits into memory."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from lightning.fabric.utilities import move_data_to_device
from torch import Tensor
from torch.optim import Optimizer

from tiryns.runner.data.micro_batch import MicroBatch, Share
from tiryns.runner.models.autocast import autocast_dtype
from tiryns.runner.models.packed.dropout_keys import dropout_keys
from tiryns.runner.models.quick.allowed import quick_gradients
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.optim import loop_needs
from tiryns.runner.patches.torch.trees import tree_leaves
from tiryns.runner.protocols import RunData

LARGEST, SMALLEST = 65536, 512
"""Tokens of a micro-batch that are tried on a GPU."""

ROOM = 0.85
"""Share of a GPU's memory that a micro-batch may take, with weights, gradients and the state of the optimizer."""

TRIED = 3
"""Micro-batches that are run to measure the time of one."""


class Cost(NamedTuple):
    """Cost of a step on one rank: memory in bytes, time in seconds."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    """Kept between forward and backward of the largest micro-batch."""
    step_seconds: float

    @property
    def memory(self) -> int:
        """The sum of the four, in bytes."""
        return self.weights + self.gradients + self.optimizer + self.activations


def try_step(module: Any, optimizer: Optimizer, share: Share, device: torch.device, precision: str) -> Cost:
    """The cost of a step on a share of a global batch; the first micro-batch runs once before, for its memory.

    The weights change.
    """
    module.to(device).train()
    micro_batches = move_data_to_device(share["micro_batches"], device)
    weight, needs = max(float(share["weight"]), 1e-12), loop_needs(optimizer)

    def run(micro_batches: list[MicroBatch], quick: bool = False) -> None:
        for micro_batch in micro_batches:
            allowed = quick_gradients(quick and not needs.create_graph, directly=True)
            with allowed, loss_of(module.model, micro_batch, device, precision) as loss:
                (loss / weight).backward(create_graph=needs.create_graph)
                needs.after_backward()

    def seconds(work: Callable[[], object]) -> float:
        began = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - began

    with needs.step(0):
        activations = _activation_bytes(module.model, lambda: run(micro_batches[:1]), device)
        tried = micro_batches[:TRIED]
        per_micro_batch = seconds(lambda: run(tried, quick=True)) / len(tried)
        update = seconds(optimizer.step)
    parameters, states = list(module.model.parameters()), tree_leaves(list(optimizer.state.values()))
    return Cost(
        weights=sum(p.nbytes for p in parameters),
        gradients=sum(p.grad.nbytes for p in parameters if p.grad is not None),
        optimizer=sum(state.nbytes for state in states if isinstance(state, Tensor)),
        activations=activations,
        step_seconds=per_micro_batch * len(micro_batches) + update,
    )


def can_be_tried(data: RunData, model: TaskModel) -> bool:
    """Whether micro-batches of the run can be had before it, and computed each by itself."""
    return data.tells_batches and not data.streamed and not model.couples_batch


def fitting_tokens(module: object, data: RunData, device: torch.device, precision: str, ranks: int) -> int:
    """The most tokens of a micro-batch that fit into a device's memory, halved from what a share of the first step has.

    Both passes of the largest micro-batch are run. Weights, gradients, buffers and random states are as before.
    """
    tokens = LARGEST
    with leaving_no_trace(module, device):
        places = _first_share(data, LARGEST, ranks)["padded_tokens"]
        while tokens > SMALLEST and tokens // 2 >= places:
            tokens //= 2
        while tokens > SMALLEST and not _fits(module, data, tokens, device, precision, ranks):
            tokens //= 2
    return tokens


def largest_micro_batch(data: RunData, tokens: int | None, ranks: int) -> MicroBatch:
    """The largest of the first step, cut into micro-batches of so many tokens whatever the data's own setting is."""
    return max(_first_share(data, tokens, ranks)["micro_batches"], key=lambda one: one["input_ids"].numel())


def _first_share(data: RunData, tokens: int | None, ranks: int) -> Share:
    """The first rank's share of the first step in micro-batches of so many tokens; the data's own setting stays."""
    given, data.micro_batch_tokens = data.micro_batch_tokens, tokens
    try:
        share: Share = data.train_batches(0, ranks)[0]
        return share
    finally:
        data.micro_batch_tokens = given


@contextmanager
def leaving_no_trace(module: Any, device: torch.device) -> Iterator[None]:
    """A context with the module on a device in training, after which it and random states are as they were."""
    placed, buffers = module.model.pretrained.device, [b.clone() for b in module.model.buffers()]
    modes = [(part, part.training) for part in module.modules()]
    module.to(device).train()
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            yield
    finally:
        module.zero_grad(set_to_none=True)
        for part, training in modes:
            part.training = training
        module.to(placed)
        for buffer, before in zip(module.model.buffers(), buffers, strict=True):
            buffer.copy_(before)


def _fits(module: Any, data: RunData, tokens: int, device: torch.device, precision: str, ranks: int) -> bool:
    """Whether both passes of the largest micro-batch of so many tokens leave room in memory."""
    largest = move_data_to_device(largest_micro_batch(data, tokens, ranks), device)
    try:
        trained = [p for p in module.parameters() if p.requires_grad]
        state = torch.empty(2 * sum(p.nbytes for p in trained), dtype=torch.uint8, device=device)
        on_gpu, begun = device.type == "cuda", 0
        if on_gpu:
            torch.cuda.reset_peak_memory_stats(device)
            begun = torch.cuda.memory_allocated(device)
        with loss_of(module.model, largest, device, precision) as loss:
            loss.backward()
        peak = torch.cuda.max_memory_allocated(device) if on_gpu else 0
        del state
    except torch.OutOfMemoryError:
        return False
    finally:
        module.zero_grad(set_to_none=True)
        if device.type == "cuda":
            torch.cuda.empty_cache()
    if not on_gpu:
        return True
    full = begun + (peak - begun) * tokens / largest["input_ids"].numel()  # this one may not be full
    return bool(full <= ROOM * torch.cuda.get_device_properties(device).total_memory)


@contextmanager
def loss_of(
    model: TaskModel, micro_batch: MicroBatch, device: torch.device, precision: str
) -> Iterator[Tensor]:
    """The loss; within it both passes are in autocast, and dropout by keys, as in `TrainingModule.training_step`."""
    mixed, dtype = precision.endswith("-mixed"), autocast_dtype(precision)
    with torch.autocast(device.type, dtype, enabled=mixed), dropout_keys(micro_batch, 0) as keys:
        loss: Tensor = model(micro_batch)["loss"]
        if keys is not None:
            keys.computing_again = True
        yield loss


def _activation_bytes(model: TaskModel, work: Callable[[], None], device: torch.device) -> int:
    """Bytes that `work` keeps for the backward pass beside the weights; each storage counts once."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        return torch.cuda.max_memory_allocated(device) - before
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        work()
    return sum(size for storage, size in kept.items() if storage not in weights)
