"""What a run of some settings would choose on this machine, with the reasons, and what it would lack."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from tiryns.runner.cli.doctor.libraries import needed
from tiryns.runner.cli.doctor.machine import GIB, compiler, disk, gpus_of_driver, gpus_of_torch, processor
from tiryns.runner.launch.processes import threads_of_ranks
from tiryns.runner.run.cluster import check_layout, member, num_nodes, processes_per_node
from tiryns.runner.run.errors import explain

CHOSEN = ("accelerator", "precision", "attention", "processes", "threads")
"""What is chosen, by the names that `status.json` of a run has for it."""

ATTENTION = {
    "documents": "one document after the other",
    "padded_documents": "documents as padded rows, as this GPU or precision has no flash attention",
    "flash_attn": "flash attention of the package flash_attn",
    "varlen_attn": "flash attention of torch, or padded rows where a model drops out attention",
}

FULL_DISK = 5 * GIB
"""Free space below which a run that keeps its checkpoints may not come to its end."""


@dataclass
class Choice:
    """What a run would choose, why, what stands in its way, and what would make it faster or safer."""

    values: dict[str, Any] = field(default_factory=lambda: dict.fromkeys(CHOSEN))
    reasons: dict[str, str] = field(default_factory=lambda: dict.fromkeys(CHOSEN, ""))
    problems: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)


def choose(config: DictConfig) -> Choice:
    """What a new run of this config would have in `resolved` of its `status.json`, as far as the machine decides it."""
    choice = Choice()
    for package in needed():
        if not package.fits:
            here = f"{package.version} is installed" if package.version else "it is missing"
            choice.problems.append(
                f"{package.requirement} is needed, and {here}: pip install '{package.requirement}'"
            )
    folder = Path(str(config.outputs))
    if not disk(folder)["writable"]:
        choice.problems.append(f"{folder} cannot be written: set outputs=FOLDER")
    try:
        _choose(config, choice)
    except Exception as error:  # what a broken torch raises, and what this machine lacks for the settings
        choice.problems.append(explain(error) or f"{type(error).__name__}: {error}")
    choice.hints += _hints(config, folder)
    return choice


def _choose(config: DictConfig, choice: Choice) -> None:
    import torch

    from tiryns.runner.launch.job import nodes_to_join
    from tiryns.runner.loop.resolved import attention_of, choose_hardware
    from tiryns.runner.models.autocast import is_slower

    here = member()
    nodes = nodes_to_join(config, here)
    asked, trainer = config.trainer, choose_hardware(config, {}).trainer
    automatic = asked.get("precision", "auto") == "auto" and trainer.accelerator == "cpu"
    width = (config.model or {}).get("hidden_size")  # saved weights have it where it is not set
    narrow = automatic and is_slower(width if isinstance(width, int) else None)
    if narrow:
        trainer.precision = "32-true"
    per_node, gpus = processes_per_node(trainer), gpus_of_torch() if trainer.accelerator == "gpu" else []
    if trainer.accelerator == "gpu" and per_node > len(gpus):
        choice.problems.append(
            f"trainer.devices={trainer.devices}, but torch finds {_counted(gpus)}; trainer.devices=auto takes all"
        )
    if here is not None and nodes == (1, 1):
        check_layout(trainer, per_node, here)
    started = here is None and (per_node > 1 or trainer.get("max_restarts"))
    own_processes = started or nodes != (1, 1)
    given = os.environ.get("OMP_NUM_THREADS")
    threads = int(given or threads_of_ranks(per_node)) if own_processes else torch.get_num_threads()
    choice.values |= {
        "accelerator": trainer.accelerator,
        "precision": trainer.precision,
        "attention": attention_of(None, "packed", trainer),
        "processes": per_node * num_nodes(trainer),
        "threads": threads if trainer.accelerator == "cpu" else None,
    }
    choice.reasons |= {
        "accelerator": _given(asked, "accelerator") or f"torch finds {_counted(gpus)}",
        "precision": _given(asked, "precision") or _why_precision(trainer.accelerator, narrow),
        "attention": f"in packed rows, {ATTENTION[choice.values['attention']]}",
        "processes": f"trainer.devices={asked.get('devices', 1)} trainer.num_nodes={asked.get('num_nodes', 1)}",
        "threads": "as OMP_NUM_THREADS says" if given else "for each process, of the cores that it may use",
    }  # fmt: skip


def _counted(gpus: Sequence[object]) -> str:
    return f"{len(gpus) or 'no'} GPU{'s' if len(gpus) > 1 else ''}"


def _given(asked: DictConfig, name: str) -> str:
    return "" if asked.get(name, "auto") == "auto" else f"as trainer.{name} says"


def _why_precision(accelerator: str, narrow: bool) -> str:
    """Why `auto` is bf16 or fp32; `narrow` models are slower in bf16."""
    from tiryns.runner.models.autocast import NARROW, has_bf16

    device = "GPU" if accelerator == "gpu" else "processor"
    if not has_bf16(accelerator):
        return f"this {device} has no bf16 units"
    timed = (
        "" if accelerator == "gpu" else ", unless a run's timed step is clearly faster in the other precision"
    )
    if narrow:
        return f"this {device} multiplies in bf16, and is slower so for a model narrower than {NARROW}{timed}"
    return f"this {device} multiplies in bf16; a model that cannot is computed in 32-true{timed}"


def _hints(config: DictConfig, folder: Path) -> Iterator[str]:
    try:
        import torch

        usable, built = torch.cuda.device_count() if torch.cuda.is_available() else 0, torch.version.cuda
    except Exception:
        usable, built = 0, "?"
    shown = gpus_of_driver()
    if shown and not built:
        yield (
            f"nvidia-smi lists {len(shown)} GPUs, but this torch is built without CUDA: install another as "
            "https://pytorch.org/get-started/locally/ says"
        )
    elif len(shown) > usable:
        yield (
            f"nvidia-smi lists {len(shown)} GPUs, and torch can use {usable}: the driver may be too old for CUDA "
            f"{built}, or CUDA_VISIBLE_DEVICES hides them"
        )
    wants = config.trainer.get("accelerator", "auto") != "cpu"
    if usable > 1 and wants and config.trainer.get("devices", 1) == 1:
        yield f"one of {usable} GPUs is used: trainer=ddp trainer.devices=auto takes all"
    facts = processor()
    if facts["quota"] and facts["quota"] < facts["usable_cores"] and "OMP_NUM_THREADS" not in os.environ:
        cores = f"{facts['quota']:g} of {facts['usable_cores']} cores"
        yield f"the container may use {cores} at once: export OMP_NUM_THREADS={max(1, int(facts['quota']))}"
    if compiler() is None:
        yield "module.compile_model=true needs a C++ compiler, such as g++"
    free = disk(folder)["free"]
    if free is not None and free < FULL_DISK:
        yield f"{folder} has {free / GIB:.1f} GiB left: outputs=FOLDER writes elsewhere"
