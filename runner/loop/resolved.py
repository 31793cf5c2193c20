"""Resolves every setting that is `auto` once, when a run begins.

The values are written to the run's `config.yaml` and `status.json` under `resolved`, and to each checkpoint. A run that
is resumed, also on another machine or as a branch, keeps them for every setting that is still `auto`.
"""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from omegaconf import DictConfig, OmegaConf

from tiryns.conf.module import check_cuda_graphs
from tiryns.runner.checkpoints.callback import ResumePoint
from tiryns.runner.checkpoints.files import entry_of, weight_types
from tiryns.runner.config.run_config import complete, has_batches_of
from tiryns.runner.loop.lengths import run_lengths
from tiryns.runner.loop.token_ramps import RECORD as RAMPS
from tiryns.runner.loop.trainer import resolve_accelerator, resolve_precision
from tiryns.runner.loop.trials import can_be_tried, fitting_tokens, precision_of
from tiryns.runner.manifest import differences
from tiryns.runner.models.initial.dtypes import OTHER_THAN_FP32, WEIGHTS, names_of, types_of
from tiryns.runner.models.packed.kernels import FLASH_KERNELS, gpu_has_flash
from tiryns.runner.models.pretraining.sparse_head import SparseMaskedLM
from tiryns.runner.models.task_model import TaskModel
from tiryns.runner.patches.torch import processor
from tiryns.runner.patches.transformers import attention_of as own_attention_of
from tiryns.runner.protocols import Resolved, RunData, State
from tiryns.runner.run.cluster import member, num_nodes, processes_per_node
from tiryns.runner.run.files import own_cache, write_atomically
from tiryns.runner.run.folder import Run

RECORD = "resolved"
"""The key of the resolved settings in `config.yaml`, `status.json` and checkpoints."""

COUNTED = {"budget", "phases", RAMPS}
"""Resolved lengths, which are counted by the batches of a run."""

COMPILED_STEPS = 1000
"""The least number of steps for which `auto` compiles the model of a run on a GPU."""

PADDED = "padded_documents"
"""The name of the attention that converts packed rows to padded rows."""

HALF = ("bf16-mixed", "16-mixed", "bf16-true", "16-true")


def record_of(folder: Run, checkpoint: ResumePoint | None, config: DictConfig) -> Resolved:
    """Returns the resolved settings of the run that is continued; empty for a new run or one of an older version."""
    if checkpoint is None:
        return folder.status.get(RECORD) or {}
    parent = Run(checkpoint.path.parent.parent)
    values = {**(entry_of(checkpoint.path, RECORD) or parent.status.get(RECORD) or {})}
    if cuts := values.get("cuts"):
        values["cuts"] = [cut for cut in cuts if cut[0] <= checkpoint.step]
    return values if folder.is_same(checkpoint.path) else of_branch(values, checkpoint.path, config)


def of_branch(values: Resolved, checkpoint: Path, config: DictConfig) -> Resolved:
    """Returns the resolved settings of a checkpoint's run for a branch with another `config`.

    If it has other batches, which lengths are counted by, `spent` (steps, tokens, FLOPs) replaces the counted lengths.
    """
    same_lengths = COUNTED.isdisjoint(values) or has_batches_of(Run(checkpoint.parent.parent), config)
    if same_lengths or not (totals := (entry_of(checkpoint, "callbacks") or {}).get("Manifest")):
        return values
    spent = {"steps": entry_of(checkpoint, "global_step"), **{n: totals[n] for n in ("tokens", "flops")}}
    return {**{name: value for name, value in values.items() if name not in COUNTED}, "spent": spent}


def choose_hardware(config: DictConfig, before: Resolved) -> DictConfig:
    """Returns a completed copy of `config` with accelerator, precision and, on a GPU, attention kernel chosen for `auto`.

    Raises ValueError if this machine lacks hardware or a package that the config or the resumed run needs.
    """
    copy = complete(config)
    for name, choose in (("accelerator", _accelerator), ("precision", _precision), ("attention", _kernel)):
        copy.trainer[name] = choose(copy.trainer, before)
    return copy


def resolve(asked: DictConfig, config: DictConfig, before: Resolved, data: RunData, module: Any) -> Resolved:
    """Returns the resolved settings of a run; `asked` is the config as given, `config` the one with chosen hardware.

    A precision that `auto` has chosen here becomes fp32 in `config` if the model cannot run in this precision, or is
    slower in it (`trials.precision_of`). Also sets the resolved micro-batches in `data` and compilation in `module`.
    """
    trainer, layout, model = config.trainer, data.layout, getattr(module, "model", None)
    attention = None
    if layout is not None and isinstance(model, TaskModel):  # neither is a plain part of Lightning
        if asked.trainer.get("precision", "auto") == "auto" and "precision" not in before:
            trainer.precision = precision_of(config, data, module)
        attention = attention_of(model, layout, trainer)
        if asked.data.get("micro_batch_tokens") == "auto":
            # as the run began, by a trial of a GPU's memory, or as they are on every CPU
            if "micro_batch_tokens" in before:
                data.micro_batch_tokens = before["micro_batch_tokens"]
            elif trainer.accelerator == "gpu" and can_be_tried(data, module.model):
                here = member()
                device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)) if here else 0)
                ranks = processes_per_node(trainer) * num_nodes(trainer)
                data.micro_batch_tokens = fitting_tokens(module, data, device, trainer.precision, ranks)
                data.fitted = True
        if asked.module.get("compile_model") == "auto":
            # on a CPU it gains next to nothing (docs/benchmarks.md), and numbers of compiled dropout would depend on
            # ranks and micro-batches
            worth_it = trainer.accelerator == "gpu" and module.max_steps >= COMPILED_STEPS
            module.compile_model = before.get("compile", worth_it and not _drops(module.model))
    if module.compile_model:
        keep_compiled(config.data.get("cache_dir"))
    if getattr(module.settings, "cuda_graphs", False):
        check_cuda_graphs(
            masked=type(model) is SparseMaskedLM, packed=layout == "packed",
            bounded=data.micro_batch_tokens is not None, whole=trainer.strategy != "fsdp",
            undropped=not _drops(module.model), flash=attention != PADDED, compiled=module.compile_model,
        )  # fmt: skip
    return {
        **run_lengths(complete(asked)).record(config), "accelerator": trainer.accelerator,
        "precision": trainer.precision, WEIGHTS: types_of(module, trainer.precision), "layout": layout,
        "attention": attention,
        **{name: getattr(data, name) for name in ("micro_batch_tokens", "micro_batch_size")},
        "compile": bool(module.compile_model), "processes": processes_per_node(trainer) * num_nodes(trainer),
        "threads": torch.get_num_threads() if trainer.accelerator == "cpu" else None, **data.decisions(),
    }  # fmt: skip


def _drops(model: torch.nn.Module) -> bool:
    """Whether any module of a model has dropout; a config may also have rates for heads that the model lacks."""
    modules = list(model.modules())
    drops = any(isinstance(m, torch.nn.Dropout) and m.p > 0 for m in modules)
    return drops or any(getattr(m, "attention_dropout", 0.0) for m in modules)


def keep_compiled(cache: str | None) -> None:
    """Makes torch keep compiled code in the project's cache, so that the next job of a sweep can use it."""
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(own_cache(cache) / "compiled"))


def keep_types(module: torch.nn.Module, checkpoint: Path, began: Resolved, precision: str) -> dict[str, str]:
    """Converts weights in place to the types of a checkpoint, for a run that resumes with fp32 weights.

    Returns the types as an entry of `resolved` if one of them is not fp32; otherwise an empty mapping. Nothing changes if
    the run resumes with another precision, or if its weights were fp32 when it `began`. Until version 0.2 weights were
    trained in the type of the file that they came from, whatever the precision.
    """
    same = began.get("precision", precision) == precision and precision not in OTHER_THAN_FP32
    fp32 = names_of({torch.float32})
    if not same or began.get(WEIGHTS) == fp32:
        return {}
    types, dtypes = weight_types(checkpoint), set()
    for name, tensor in module.state_dict(keep_vars=True).items():
        if (dtype := types.get(name)) is not None:
            tensor.data = tensor.data.to(dtype)
            dtypes.add(dtype)
    return {} if names_of(dtypes) == fp32 else {WEIGHTS: f"{names_of(dtypes)}, as the run began"}


def attention_of(model: Any, layout: str, trainer: DictConfig) -> str:
    """Returns the name of the attention in training: one of transformers for padded rows, one of ours for packed rows.

    On a CPU packed rows have `documents`: one document after another. On a GPU they have `flash_attn` or `varlen_attn`,
    or else `padded_documents`: if there is no flash attention for this precision, or if the model has attention dropout,
    which the kernel `varlen_attn` lacks. In this second case evaluations use `varlen_attn`.
    """
    if layout != "packed":
        return str(own_attention_of(model.pretrained.config))
    if trainer.accelerator != "gpu":
        return "documents"
    if trainer.precision not in HALF or not gpu_has_flash():
        return PADDED
    # whose dropout of attention models may name as they like
    config = None if model is None else model.pretrained.config.get_text_config()
    names = ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop")
    drops = any(getattr(config, name, 0) for name in names)
    return PADDED if drops and trainer.attention == "varlen_attn" else str(trainer.attention)


def kernel_of(resolved: Resolved) -> str:
    """Returns `trainer.attention` for a run with these resolved settings; `auto` if it had no flash attention."""
    kernel = resolved.get("attention") if resolved.get("accelerator") == "gpu" else None
    if kernel == PADDED and resolved.get("precision") in HALF:
        return "varlen_attn"  # which has no dropout; evaluations ran with it
    return str(kernel) if kernel in FLASH_KERNELS else "auto"


def note(folder: Run, values: Resolved) -> Resolved:
    """Writes the settings into the run's `config.yaml` and `status.json`, on the first rank; returns them."""
    if (here := member()) is None or here.rank == 0:
        folder.update_status(**{RECORD: values})
        file = folder.path / "config.yaml"
        config, _, _ = file.read_text(encoding="utf-8").partition(f"\n{RECORD}:")
        write_atomically(file, f"{config.rstrip()}\n{OmegaConf.to_yaml({RECORD: values})}")
    return values


def changes(before: Resolved, now: Resolved) -> list[str]:
    """Returns a line for each setting that changes when a run resumes, and a line if the precision is slow here."""
    lines = [
        f"{name} changes from {was} to {is_now} where this run goes on"
        for name, was, is_now in (differences.changes(before, now) if before else ())
        if name.partition(".")[0]
        in before.keys() & now.keys() - {"phases", "cuts", RAMPS}  # which the manifest tells
    ]
    if now["accelerator"] == "cpu" and now["precision"].startswith("bf16") and not processor.has_bf16():
        since = " as the run began" if before.get("precision") == now["precision"] else ""
        setting = f"trainer.precision={now['precision']}{since}"
        lines.append(f"{setting}: this CPU has no bf16 units, so it is emulated, and slow")
    return lines


def summary_of(config: DictConfig, before: Resolved, now: Resolved) -> dict[str, str]:
    """Returns the settings for the summary at the start; a setting that was `auto` has the reason for its value."""
    settings = {"precision": config.trainer.get("precision", "auto"), "layout": config.data.get("layout")}
    summary = {name: str(now[name]) for name in (*settings, "attention") if now[name] is not None}
    for name in (name for name in summary if settings.get(name) == "auto"):
        began = before.get(name) == now[name]
        summary[name] += ", as the run began" if began else ", chosen for this machine"
    return summary


class Record(Callback):
    """Saves the resolved settings in every checkpoint, and checks that all ranks have the same."""

    def __init__(self, resolved: Resolved) -> None:
        self.resolved = resolved

    def on_fit_start(self, trainer: Any, pl_module: LightningModule) -> None:
        """Takes the smallest fitted micro-batch of all ranks, which fits on each rank. Raises ValueError on all ranks if
        machines have resolved another setting differently."""
        if trainer.world_size > 1:
            all_settings: list[Any] = [None] * trainer.world_size
            torch.distributed.all_gather_object(all_settings, self.resolved)
            if trainer.datamodule.fitted:
                least = min(settings["micro_batch_tokens"] for settings in all_settings)
                for settings in (self.resolved, *all_settings):
                    settings["micro_batch_tokens"] = least
                trainer.datamodule.micro_batch_tokens = least
                note(Run(Path(trainer.default_root_dir)), self.resolved)
            check_agreement(all_settings)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: State) -> None:
        checkpoint[RECORD] = self.resolved


def check_agreement(all_settings: list[Resolved]) -> None:
    """Raises ValueError, naming the first difference, unless all ranks have the same settings."""
    keys = {"compile": "module.compile_model"}
    keys |= {name: f"data.{name}" for name in ("layout", "micro_batch_tokens", "micro_batch_size")}
    for rank, settings in enumerate(all_settings):
        for name, value in all_settings[0].items():
            if settings[name] != value and name != "threads":  # nodes may have other numbers of cores
                raise ValueError(
                    f"rank 0 would train with {name} {value}, rank {rank} with {settings[name]}: the machines differ, "
                    f"so set {keys.get(name, f'trainer.{name}')} to one that all of them have"
                )


def _accelerator(trainer: DictConfig, before: Resolved) -> str:
    """Resolves `auto` to the accelerator of the run's start; to this machine's in a new run, or with `devices=auto`."""
    was = before.get("accelerator")
    if trainer.accelerator != "auto" or was is None or trainer.devices in ("auto", -1, "-1"):
        return resolve_accelerator(trainer.accelerator)
    if was == "gpu" and not torch.cuda.is_available():
        raise ValueError(
            "the run began on a GPU, but torch has none; with trainer.accelerator=cpu it goes on without one"
        )
    return str(was)


def _precision(trainer: DictConfig, before: Resolved) -> str:
    was = before.get("precision") if trainer.precision == "auto" else None
    precision = str(was or resolve_precision(trainer.precision, trainer.accelerator))
    if precision.startswith("16-") and trainer.accelerator == "cpu":
        began = "the run began with " if was else ""
        raise ValueError(
            f"{began}trainer.precision={precision}, which needs a GPU, but this is a CPU; trainer.precision=bf16-mixed "
            f"or trainer.precision=32-true {'lets it go on with another' if was else 'can be used instead'}"
        )
    return precision


def _kernel(trainer: DictConfig, before: Resolved) -> str:
    """Returns the flash attention for packed rows on a GPU; on a CPU the unchanged setting, which has no effect."""
    kernel, was, began = str(trainer.attention), kernel_of(before), ""
    if trainer.accelerator != "gpu":
        return kernel
    available = [name for name in FLASH_KERNELS if name != "flash_attn" or find_spec(name)]
    if kernel == "auto" and was != "auto":
        kernel, began = was, "the run began with "
    elif kernel == "auto":
        kernel = available[0]
    if kernel not in available:
        raise ValueError(
            f"{began}trainer.attention={kernel}, whose package is not installed here; install it, or set "
            f"trainer.attention={available[0]}"
        )
    return kernel
