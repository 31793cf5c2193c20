"""Lightning's Trainer, with devices, precision and strategy chosen for the hardware, and a profile of its steps."""

import inspect
import logging
import os
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint as LightningCheckpoint
from lightning.pytorch.callbacks import ProgressBar, Timer
from lightning.pytorch.strategies import DDPStrategy, Strategy
from omegaconf import DictConfig, OmegaConf
from torch.profiler import ProfilerActivity, profile, schedule
from transformers.utils.logging import disable_progress_bar

from tiryns.conf import trainer as options
from tiryns.conf.values import count_of
from tiryns.runner import log
from tiryns.runner.build import bind
from tiryns.runner.checkpoints.callback import ResumePoint
from tiryns.runner.checkpoints.files import AtomicCheckpointIO
from tiryns.runner.config.calling import takes_settings
from tiryns.runner.logging.loggers import LogFile, MetricsFile
from tiryns.runner.loop.assembly import Parts
from tiryns.runner.loop.sharding import Layout, ShardedStrategy
from tiryns.runner.models.autocast import has_bf16
from tiryns.runner.models.packed.kernels import use_kernel
from tiryns.runner.patches.lightning import keep_plugins, leave_signals_alone
from tiryns.runner.report.summary import typed_path
from tiryns.runner.run.cluster import cluster_environment, num_nodes, processes_per_node
from tiryns.runner.run.folder import Run

EXPECTED_WARNINGS = (
    "`srun` command is available", "dataloader is not resumable", "does not have many workers",
    "Checkpoint directory.*exists and is not empty", "smaller than the logging interval",
    "It is recommended to use `self.log.*sync_dist=True", "`broadcast_buffers` is deprecated",
    "torch.utils._pytree", "LeafSpec",
)  # fmt: skip
"""Warnings of Lightning about what this project does on purpose."""

SHARED = "accelerator", "devices", "num_nodes", "strategy", "precision", "max_steps", "max_epochs", "plugins"
"""Settings of Lightning's Trainer that other parts of a run depend on; the Trainer gets their resolved values."""


@takes_settings(options.Trainer)
def build_trainer(
    settings: options.Trainer,
    callbacks: list[Callback],
    loggers: dict[str, Any],
    folder: Run,
    resumed_step: int,
    epochs: dict[str, int],
    make: Callable[..., Trainer] = Trainer,
) -> Trainer:
    """Returns a Trainer for this hardware; `epochs` are Lightning's keywords for its length, `make` gets all keywords.

    From now on models use the flash attention that `attention` names. If there is a logger, adds one for `metrics.csv`,
    which the report needs. Loggers drop the rows that a resumed run writes again. Raises ValueError if the machine lacks
    the accelerator, or if the processes cannot be divided as the settings say.
    """
    accelerator = resolve_accelerator(settings.accelerator)
    torch.set_float32_matmul_precision(settings.matmul_precision)
    use_kernel(None if settings.attention == "auto" else settings.attention)
    quiet_libraries()
    keep_plugins()
    if loggers:
        loggers.setdefault("csv", MetricsFile(str(folder.path)))
    for logger in loggers.values():
        logger.resume(resumed_step)
    processes = processes_per_node({"devices": settings.devices, "accelerator": accelerator})
    nodes = num_nodes({"num_nodes": settings.num_nodes})
    clock = [Clock(timedelta(seconds=settings.max_seconds))] if settings.max_seconds else []
    asked_for = [*clock, *([Profile(folder.path)] if settings.profile else [])]
    trainer = make(
        accelerator=accelerator,
        devices=processes,
        num_nodes=nodes,
        strategy=_strategy(settings, processes * nodes, accelerator),
        inference_mode=settings.strategy != "fsdp",  # weights gathered in it could not be trained on
        precision=resolve_precision(settings.precision, accelerator),
        **epochs,
        check_val_every_n_epoch=None,
        val_check_interval=settings.validate_every or None,
        limit_val_batches=settings.validation_batches if settings.validate_every else 0.0,
        num_sanity_val_steps=0,
        log_every_n_steps=settings.log_every,
        deterministic=settings.deterministic,
        enable_checkpointing=any(isinstance(callback, LightningCheckpoint) for callback in callbacks),
        enable_progress_bar=any(isinstance(callback, ProgressBar) for callback in callbacks),
        enable_model_summary=False,
        callbacks=[*callbacks, *asked_for],
        logger=[*loggers.values(), LogFile(folder.path)],
        plugins=[AtomicCheckpointIO(), cluster_environment()],
        default_root_dir=str(folder.path),
    )
    leave_signals_alone(trainer)
    return trainer


class Clock(Timer):
    """Ends training after `max_seconds` and logs the step. Sessions before a resume count too."""

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Logs the step that the clock stopped at."""
        super().on_train_end(trainer, pl_module)
        if (self.time_remaining() or 0) <= 0:
            log.info("the seconds of trainer.max_seconds are over at step %d", trainer.global_step)


def make_trainer(node: DictConfig, resolved: DictConfig, **arguments: object) -> Trainer:
    """Returns the Trainer of the config `node`, with values from `resolved`.

    For Lightning's Trainer or a subclass, settings have Lightning's names; defaults are those of `trainer=auto`.
    Raises ValueError for an unknown setting, and for callbacks and loggers, which other config groups choose.
    """
    settings = OmegaConf.create({"trainer": {name: resolved[name] for name in node}})
    call = bind(settings.trainer)
    if not (isinstance(call.func, type) and issubclass(call.func, Trainer)):
        trainer: Trainer = call(**arguments)
        return trainer
    for name, group in (("callbacks", "callback"), ("logger", "logger")):
        if name in call.keywords:
            raise ValueError(f"trainer.{name}: choose them by the group {group}, such as {group}=...")
    plain = call.with_keywords({n: value for n, value in call.keywords.items() if n not in SHARED})
    parameters = inspect.signature(build_trainer).parameters
    return build_trainer(**{**{n: resolved[n] for n in parameters if n in resolved}, **arguments}, make=plain)


def quiet_libraries() -> None:
    """Silences libraries where this project's summary and progress say the same; other warnings still show."""
    for message in EXPECTED_WARNINGS:
        warnings.filterwarnings("ignore", f".*{message}")
    for library in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(library).setLevel(logging.WARNING)
    logging.getLogger("torch.distributed.tensor").setLevel(logging.ERROR)
    disable_progress_bar()


def resolve_precision(precision: str, accelerator: str) -> str:
    """Returns `precision` with `auto` replaced: bf16 autocast where the hardware multiplies in bf16, else fp32."""
    if precision != "auto":
        return precision
    return "bf16-mixed" if has_bf16(accelerator) else "32-true"


def describe_run(
    trainer: Trainer,
    parts: Parts,
    folder: Run,
    checkpoint: ResumePoint | None,
    auto_values: dict[str, str],
    budget: str | None,
) -> dict[str, dict[str, str]]:
    """Returns the summary at the start, by section; `auto_values` are the values of settings that are `auto`."""
    device, name = trainer.strategy.root_device, f"CPU, {count_of(torch.get_num_threads(), 'thread')}"
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    steps = f"{trainer.max_steps:,}" if trainer.max_steps > 0 else f"{trainer.max_epochs} epochs"
    steps += f" ({budget})" if budget else ""
    if checkpoint is not None and folder.is_same(checkpoint.path):
        steps += f", continuing at step {checkpoint.step:,}"
    elif checkpoint is not None:
        steps += f", branching off at step {checkpoint.step:,} of {checkpoint.path.parent.parent.resolve()}"
    run = {
        "steps": steps,
        "device": f"{name} x {trainer.world_size}" if trainer.world_size > 1 else name,
        **auto_values,
        "folder": str(typed_path(folder.path)),
    }
    return {"data": parts.data.describe(), "model": {**parts.module.describe(), **parts.weights}, "run": run}


def resolve_accelerator(name: str) -> str:
    """Returns `name`; `auto` becomes `gpu` if torch has a GPU, else `cpu`. Raises ValueError if the device is missing."""
    if name == "auto":
        return "gpu" if torch.cuda.is_available() else "cpu"
    if name in ("gpu", "cuda") and not torch.cuda.is_available():
        raise ValueError(
            f"trainer.accelerator={name}, but there is no GPU that torch can use; try trainer=cpu"
        )
    return "gpu" if name == "cuda" else name


BACKENDS = {"gpu": "cpu:gloo,cuda:nccl"}
"""Backends of process groups by accelerator: gloo adds up counts on the CPU, nccl adds up gradients on the GPU."""


def _strategy(settings: options.Trainer, world_size: int, accelerator: str) -> str | Strategy:
    name, num_shared = settings.strategy, settings.tensor_parallel_size
    setting = f"trainer.tensor_parallel_size={num_shared}"
    timeout = 1.5 * timedelta(seconds=settings.timeout)  # the agent of the ranks, if there is one, acts first
    group: dict[str, Any] = {"process_group_backend": BACKENDS.get(accelerator, "gloo"), "timeout": timeout}
    of_shards = [n for n in vars(options.Trainer()) if n.startswith(("fsdp_", "tensor_parallel_size"))]
    for option in of_shards if name != "fsdp" else ():
        if (value := getattr(settings, option)) != getattr(options.Trainer, option):
            raise ValueError(f"trainer.{option}={value} needs trainer=fsdp")
    if world_size % num_shared:
        raise ValueError(f"{setting} does not divide the {world_size} processes")
    if name == "fsdp":
        sizes = world_size // num_shared, num_shared
        if sizes[0] % settings.fsdp_replicas:
            setting = f"trainer.fsdp_replicas={settings.fsdp_replicas}"
            raise ValueError(f"{setting} does not divide the {sizes[0]} processes that read different data")
        dtype = None if settings.fsdp_param_dtype == "float32" else torch.bfloat16
        if dtype is not None and settings.precision != "bf16-mixed":
            setting = f"trainer.fsdp_param_dtype={settings.fsdp_param_dtype}"
            raise ValueError(f"{setting} needs trainer.precision=bf16-mixed, and it is {settings.precision}")
        if world_size == 1:
            return "auto"  # one process has all of the model anyway
        layout = Layout(settings.fsdp_replicas, settings.fsdp_reshard, settings.fsdp_prefetch, dtype)
        return ShardedStrategy(layout, *sizes, save_distributed_checkpoint=False, **group)
    if name == "ddp" or (name == "auto" and world_size > 1):
        return DDPStrategy(gradient_as_bucket_view=True, broadcast_buffers=False, **group)
    return name


TRACE, TABLE = "profile.json", "profile.txt"
WARM_UP, STEPS = 2, 5
"""Numbers of steps: first steps that only fill caches, then steps that are profiled."""


class Profile(Callback):
    """Profiles steps of the first rank: `profile.json` for ui.perfetto.dev, the costliest operators in `profile.txt`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._profiler: profile | None = None

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        if not trainer.is_global_zero:
            return
        activities, key = [ProfilerActivity.CPU], "self_cpu_time_total"
        if module.device.type == "cuda":
            activities, key = [*activities, ProfilerActivity.CUDA], "self_device_time_total"
        else:
            os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it calls a machine without a GPU an error

        def write(profiler: profile) -> None:
            profiler.export_chrome_trace(str(self.folder / TRACE))
            table = profiler.key_averages().table(sort_by=key, row_limit=10)
            (self.folder / TABLE).write_text(f"{STEPS} steps\n{table}\n")

        self._profiler = profile(
            activities=activities,
            schedule=schedule(wait=0, warmup=WARM_UP, active=STEPS, repeat=1),
            on_trace_ready=write,
        )
        self._profiler.start()

    def on_train_batch_end(self, *_: object) -> None:
        if self._profiler is not None:
            self._profiler.step()

    def on_train_end(self, *_: object) -> None:
        """Stops the profiler, which then writes the profiled steps of a run that was too short."""
        if self._profiler is not None:
            self._profiler.stop()
