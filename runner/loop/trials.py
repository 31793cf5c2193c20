"""Runs a part of a step before a run to find the run's cost, the micro-batch that fits, and the precision of a CPU.

A timing depends on the load of the machine. So only the first run with a certain processor, number of threads, version
of torch and model times each precision. Other such runs, for example the jobs of a sweep, share the result. Only a clear
difference counts.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from lightning.fabric.utilities import move_data_to_device
from omegaconf import DictConfig
from torch import Tensor
from torch.optim import Optimizer

from tiryns.runner import log
from tiryns.runner.data.micro_batch import MicroBatch, Share
from tiryns.runner.data.store.writer import key_of, lock_of
from tiryns.runner.models.autocast import autocast_dtype, is_slower, usable_precision
from tiryns.runner.models.packed.dropout_keys import dropout_keys
from tiryns.runner.models.packed.trials import evaluating, in_one_line
from tiryns.runner.models.quick.gradients import quick_gradients
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.optim import loop_needs
from tiryns.runner.patches.torch.trees import tree_leaves
from tiryns.runner.protocols import RunData
from tiryns.runner.run.cluster import num_nodes, processes_per_node
from tiryns.runner.run.environment import machine
from tiryns.runner.run.files import own_cache, read_json, write_atomically

LARGEST, SMALLEST = 65536, 512
"""Most and fewest tokens of a micro-batch that is tried on a GPU; on a CPU only the second number applies."""

ROOM = 0.85
"""Share of a GPU's memory that a micro-batch may take, with weights, gradients and the state of the optimizer."""

CLEARLY = 0.9
"""The other precision is chosen if its time is below this share of the time of the rule's precision."""

FLOPS = 1e12
"""Most floating point operations of a timed trial; a larger model is timed on fewer tokens."""


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
        """Weights, gradients, optimizer states and activations together, in bytes."""
        return self.weights + self.gradients + self.optimizer + self.activations


def try_step(module: Any, optimizer: Optimizer, share: Share, device: torch.device, precision: str) -> Cost:
    """Returns the cost of a step on a share of a global batch; first runs one micro-batch to measure its memory.

    Changes the weights.
    """
    module.to(device).train()
    micro_batches = move_data_to_device(share["micro_batches"], device)
    weight, needs = max(float(share["weight"]), 1e-12), loop_needs(optimizer)

    def run(micro_batches: list[MicroBatch], quick: bool = False) -> None:
        for micro_batch in micro_batches:
            context = quick_gradients(quick and not needs.create_graph, directly=True)
            with context, loss_of(module.model, micro_batch, device, precision) as loss:
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
        trial_batches = micro_batches[:3]
        per_micro_batch = seconds(lambda: run(trial_batches, quick=True)) / len(trial_batches)
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
    """Whether micro-batches can be read before the run, and the loss of each computed without the others."""
    return data.tells_batches and not data.streamed and not model.couples_batch


def fitting_tokens(module: object, data: RunData, device: torch.device, precision: str, ranks: int) -> int:
    """Returns the most tokens per micro-batch that fit into memory: halves the first step's share, down to `SMALLEST`.

    Runs both passes of the largest micro-batch. Leaves weights, gradients, buffers and random states as before.
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
    """Returns the first step's largest micro-batch of up to `tokens` tokens; ignores the limit that the data sets."""
    return max(_first_share(data, tokens, ranks)["micro_batches"], key=lambda one: one["input_ids"].numel())


def _first_share(data: RunData, tokens: int | None, ranks: int) -> Share:
    """Returns the first rank's share of the first step in micro-batches of up to `tokens` tokens; restores `data`."""
    limit, data.micro_batch_tokens = data.micro_batch_tokens, tokens
    try:
        share: Share = data.train_batches(0, ranks)[0]
        return share
    finally:
        data.micro_batch_tokens = limit


@contextmanager
def leaving_no_trace(module: Any, device: torch.device) -> Iterator[None]:
    """Puts the module on a device in training mode for the block, then restores it, its buffers and the random states."""
    device_before, buffers = module.model.pretrained.device, [b.clone() for b in module.model.buffers()]
    try:
        with evaluating(module), torch.random.fork_rng([device] if device.type == "cuda" else []):
            module.to(device).train()  # until `evaluating` restores the mode of each part
            yield
    finally:
        module.zero_grad(set_to_none=True)
        module.to(device_before)
        for buffer, before in zip(module.model.buffers(), buffers, strict=True):
            buffer.copy_(before)


def _fits(module: Any, data: RunData, tokens: int, device: torch.device, precision: str, ranks: int) -> bool:
    """Whether forward and backward pass of the largest micro-batch of up to `tokens` tokens fit into the memory."""
    largest = move_data_to_device(largest_micro_batch(data, tokens, ranks), device)
    try:
        trainable = [p for p in module.parameters() if p.requires_grad]
        state = torch.empty(2 * sum(p.nbytes for p in trainable), dtype=torch.uint8, device=device)
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
    """Yields the loss in a context in which both passes use autocast and keyed dropout, as in the training step."""
    is_mixed, dtype = precision.endswith("-mixed"), autocast_dtype(precision)
    with torch.autocast(device.type, dtype, enabled=is_mixed), dropout_keys(micro_batch, 0) as keys:
        loss: Tensor = model(micro_batch)["loss"]
        if keys is not None:
            keys.computing_again = True
        yield loss


def _activation_bytes(model: TaskModel, work: Callable[[], None], device: torch.device) -> int:
    """Returns the bytes that `work` keeps for the backward pass, without the weights; counts each storage once."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        return torch.cuda.max_memory_allocated(device) - before
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    sizes: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        work()
    return sum(size for storage, size in sizes.items() if storage not in weights)


def precision_of(config: DictConfig, data: RunData, module: Any) -> str:
    """Returns the precision for `trainer.precision=auto`, given the suggestion of the hardware in `config.trainer`.

    It is fp32 for a model that cannot run in autocast. On a CPU with bf16 units it is the faster of bf16 and fp32:
    `is_slower` decides, unless a timed step clearly contradicts it. Steps are not timed for a stream, for a model whose
    loss couples the batch, or on several nodes, whose caches may differ.
    """
    trainer, model = config.trainer, module.model
    precision = usable_precision(trainer.precision, model, data.layout)
    if trainer.accelerator != "cpu" or not precision.endswith("-mixed"):
        return precision
    by_rule = ["32-true", precision]
    if not is_slower(getattr(model.pretrained.config.get_text_config(), "hidden_size", None)):
        by_rule.reverse()
    if not can_be_tried(data, module.model) or num_nodes(trainer) > 1:
        return by_rule[0]
    cache = config.data.get("cache_dir")
    try:
        return _best_precision(by_rule, data, module, processes_per_node(trainer), cache)
    except Exception as error:  # models raise what they like, and so do file systems
        log.info("precision is %s, not timed: %s", by_rule[0], in_one_line(error))
        return by_rule[0]


def _best_precision(precisions: list[str], data: RunData, module: Any, ranks: int, cache: str | None) -> str:
    """Returns the faster precision, from the cache or timed; concurrent processes wait for the first."""
    here, model = machine(), module.model
    conditions = {
        "precisions": precisions,
        **{name: here[name] for name in ("cpu", "features")},
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "model": [type(model).__name__, type(model.pretrained).__name__],
        "shapes": key_of({"parameters": [list(p.shape) for p in model.parameters()]}),
        **{name: getattr(data, name) for name in ("layout", "micro_batch_tokens", "micro_batch_size")},
    }
    path = own_cache(cache) / "precision" / f"{key_of(conditions)}.json"
    with lock_of(path):
        choice = read_json(path, {}).get("chosen")
        if choice not in precisions:
            seconds = _seconds(precisions, data, module, ranks)
            first, second = precisions
            choice = second if seconds[second] < CLEARLY * seconds[first] else first
            times = ", ".join(f"{1000 * value:.1f} ms in {name}" for name, value in seconds.items())
            log.info("precision is %s: %s (kept in %s)", choice, times, path)
            write_atomically(path, json.dumps({**conditions, "seconds": seconds, "chosen": choice}, indent=1))
    return str(choice)


def _seconds(precisions: Sequence[str], data: RunData, module: Any, ranks: int) -> dict[str, float]:
    """Times each precision in turn; returns its least seconds for both passes of the first step's largest micro-batch."""
    cpu, times, tokens = torch.device("cpu"), dict.fromkeys(precisions, float("inf")), data.micro_batch_tokens
    if tokens is not None:  # fewer for a large model
        fitting = FLOPS / (6 * sum(p.numel() for p in module.model.parameters()))
        tokens = min(tokens, max(SMALLEST, int(fitting)))
    with leaving_no_trace(module, cpu):
        micro_batch, began = largest_micro_batch(data, tokens, ranks), time.perf_counter()
        for _ in range(4):  # of which the first prepares kernels
            for precision in precisions:
                start = time.perf_counter()
                with (
                    quick_gradients(once=True, directly=True),
                    loss_of(module.model, micro_batch, cpu, precision) as loss,
                ):
                    loss.backward()
                times[precision] = min(times[precision], time.perf_counter() - start)
                module.zero_grad(set_to_none=True)
            if time.perf_counter() - began > 4.0:
                break
    return times
