"""Group `trainer`: devices, precision, and how long to train."""

from dataclasses import dataclass
from typing import Any

from tiryns.conf.registry import register
from tiryns.conf.values import AT_LEAST_0, COUNT, POSITIVE, WHOLE_FROM_0, Bounds, Choice, setting

PRECISIONS = ("auto", "32-true", "32", "bf16-mixed", "16-mixed", "bf16-true", "16-true", "64-true", "64")


@dataclass
class Trainer:
    """Lightning's Trainer, with one optimizer step per global batch."""

    _target_: str = "runner.loop.build_trainer"
    max_steps: int = setting(1500, allowed=Bounds(-1, whole=True))
    """Optimizer steps, each on one global batch; -1: `max_epochs`, `max_tokens` or `max_flops` gives the length."""
    max_epochs: Any = setting(None, allowed=POSITIVE)
    """Passes over the training set (may be a fraction), read if `max_steps` is -1."""
    max_tokens: Any = setting(None, allowed=POSITIVE)
    """Budget if `max_steps` is -1: the run takes as many steps as fit into this number of tokens, padding not counted."""
    max_flops: Any = setting(None, allowed=POSITIVE)
    """Budget if `max_steps` is -1: as many steps as fit into this number of the model's floating point operations."""
    max_seconds: Any = setting(None, allowed=POSITIVE)
    """Ends training after this many seconds, including validation and checkpoints, excluding the start and the end of
    the run. The schedule still follows the length of the run."""
    accelerator: str = setting("auto", allowed=Choice(("auto", "cpu", "gpu", "cuda", "mps")), execution=True)
    """`cpu`, `gpu`, `mps`, or `auto`: the best that is there."""
    devices: Any = setting(1, execution=True)
    """Processes on this node, one per device; `auto` takes every GPU, or one process on a CPU."""
    num_nodes: Any = setting(1, execution=True)
    """Nodes of the job: a number, a range such as `1:4`, or `auto` for all available nodes. With a range, nodes may join
    and leave during the run."""
    max_restarts: Any = setting(None, allowed=WHOLE_FROM_0, execution=True)
    """Maximum number of restarts after a rank crashed, was killed or hung; none: 3 with several ranks, and no restart of
    a single rank. A number of 1 or more also runs a single rank in a separate process."""
    timeout: float = setting(600.0, allowed=POSITIVE, execution=True)
    """Seconds without progress after which a rank counts as hanging."""
    strategy: str = setting("auto", allowed=Choice(("auto", "ddp", "fsdp")), execution=True)
    """`ddp`, `fsdp`, or `auto`: DDP for several processes."""
    tensor_parallel_size: int = setting(1, allowed=COUNT, execution=True)
    """Processes that share each matrix, for `trainer=fsdp` and models with a tensor-parallel plan in transformers."""
    fsdp_replicas: int = setting(1, allowed=COUNT, execution=True)
    """For `trainer=fsdp`: copies of the model, each sharded over an equal part of the processes, such as a node (HSDP).
    Weights are gathered within a copy; only gradients are exchanged between copies."""
    fsdp_reshard: bool = setting(True, execution=True)
    """For `trainer=fsdp`: frees a layer's gathered weights after its forward pass; false keeps them until its backward
    pass, which takes more memory and less traffic."""
    fsdp_prefetch: int = setting(0, allowed=WHOLE_FROM_0, execution=True)
    """For `trainer=fsdp`: layers whose weights are gathered ahead of the one that is computed; 0 leaves it to torch."""
    fsdp_param_dtype: str = setting("float32", allowed=Choice(("float32", "bfloat16")))
    """For `trainer=fsdp` at `bf16-mixed`: dtype of the gathered weights; `bfloat16` halves the traffic. Gradients are
    summed in fp32, and the optimizer updates fp32 weights."""
    precision: str = setting("auto", allowed=Choice(PRECISIONS))
    """`32-true`, `bf16-mixed`, ..., or `auto`, chosen once per run: bf16-mixed on hardware with bf16 units, else fp32.
    On a CPU with bf16 units, both are timed with the model, and the cache keeps the faster one."""
    attention: str = setting("auto", allowed=Choice(("auto", "flash_attn", "varlen_attn")), execution=True)
    """Attention of packed rows on a GPU in half precision: the package `flash_attn`, torch's `varlen_attn`, or `auto`:
    the package if it is installed. `varlen_attn` has no dropout: with dropout of attention, training rows are padded."""
    matmul_precision: str = setting("highest", allowed=Choice(("highest", "high", "medium")))
    """Precision of fp32 matrix products on a GPU, for `torch.set_float32_matmul_precision`: `high` computes in TF32."""
    recommends: dict[str, Any] = setting({}, execution=True)
    """Defaults on this hardware for `module.compile_model`, `data.micro_batch_tokens` and `data.num_workers`, used if
    these are not set."""
    validate_every: int = setting(250, allowed=WHOLE_FROM_0)
    """Steps between two validations; there is always one at the end. 0 turns validation off."""
    validation_batches: Any = setting(None, allowed=AT_LEAST_0)
    """Batches of each validation set to use; none: all."""
    log_every: int = setting(10, allowed=COUNT, execution=True)
    """Steps between two rows in the logs."""
    deterministic: bool = False
    """Turns on torch's deterministic algorithms; an operation that has none on the device is an error. On a CPU it
    changes no bit and costs 1 to 5 % of the time; on a GPU it is what makes a run repeatable."""
    profile: bool = setting(False, execution=True)
    """Writes a trace and a table of the most expensive operators to the run folder."""


@dataclass
class CpuTrainer(Trainer):
    """On the CPU, also where there is a GPU."""

    accelerator: str = "cpu"


@dataclass
class GpuTrainer(Trainer):
    """On one GPU: bf16 if available, TF32 for fp32 products, a compiled model if the run is long enough, micro-batches as
    large as fit, and four loader processes. Batches are copied from pinned memory while the GPU computes."""

    accelerator: str = "gpu"
    matmul_precision: str = "high"
    recommends: dict[str, Any] = setting(
        {"compile_model": "auto", "micro_batch_tokens": "auto", "num_workers": 4}
    )


@dataclass
class DdpTrainer(Trainer):
    """One process per device, gradients averaged (gloo on CPUs, nccl on GPUs)."""

    strategy: str = "ddp"
    devices: Any = 2


@dataclass
class FsdpTrainer(Trainer):
    """One process per device, with a shard of weights, gradients and optimizer state, for models too big for a device."""

    strategy: str = "fsdp"
    devices: Any = 2


BUDGETS = ("max_tokens", "max_flops")
"""Lengths of a run that are converted to steps when the run begins."""


def check_length(max_steps: int, max_epochs: float | None, **budgets: float | None) -> None:
    """Raises ValueError unless a run has one length: steps (then epochs do not count), epochs or one of `BUDGETS`."""
    limits = {name: value for name, value in budgets.items() if value is not None}
    others = limits if max_steps > 0 or max_epochs is None else {"max_epochs": max_epochs, **limits}
    if max_steps == 0 or len(others) != (max_steps < 0):
        lengths = " and ".join(
            f"trainer.{name}={value}" for name, value in {"max_steps": max_steps, **others}.items()
        )
        raise ValueError(
            f"{lengths}: give one length, either max_steps above 0, or max_steps=-1 and one of max_epochs, "
            f"{', '.join(BUDGETS)}; max_seconds may end the run before it; null takes one away"
        )


register("trainer", auto=Trainer, cpu=CpuTrainer, gpu=GpuTrainer, ddp=DdpTrainer, fsdp=FsdpTrainer)
