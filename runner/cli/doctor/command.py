"""`tiryns doctor [SETTINGS]`: what this machine can do, and what a run of the settings would choose here.

It shows processor, memory, GPUs, disk, SLURM, packages and extras, the values that replace `auto` (as in `resolved` of
a run's `status.json`), and what to install or set. It reads no data, builds no model and uses no network.
The exit status is 0 if a run of the settings can begin, and 4 if this machine lacks something that the run needs.
"""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

from omegaconf import DictConfig

from tiryns.runner.cli.compose import compose, initialize
from tiryns.runner.cli.doctor import machine
from tiryns.runner.cli.doctor.machine import GIB, Facts
from tiryns.runner.config.checks import check_config
from tiryns.runner.config.permissions import on_command_line
from tiryns.runner.launch.processes import threads_of_ranks
from tiryns.runner.report.summary import show
from tiryns.runner.run.cluster import check_layout, member, num_nodes, processes_per_node
from tiryns.runner.run.command.json_output import print_json
from tiryns.runner.run.command.status import DIFFERENT
from tiryns.runner.run.environment import PACKAGES, environment
from tiryns.runner.run.errors import explain
from tiryns.runner.run.files import own_cache

CHOSEN = ("accelerator", "precision", "attention", "processes", "threads")
"""Names of the values that a run chooses, as in its `status.json`."""

ATTENTION = {
    "documents": "one document after the other",
    "padded_documents": "documents as padded rows, as this GPU or precision has no flash attention",
    "flash_attn": "flash attention of the package flash_attn",
    "varlen_attn": "flash attention of torch, or padded rows where a model drops out attention",
}

FULL_DISK = 5 * GIB
"""Bytes of free disk space; with less, a run that keeps its checkpoints may fail before its end."""

SHOWN_FEATURES = ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16", "asimd", "sve", "sve2", "bf16")
"""Processor features that speed up matrix products; `screen` shows only these."""


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("overrides", nargs="*", metavar="SETTING", help="such as trainer.devices=8")


def main(arguments: Namespace) -> None:
    """Prints findings and choices; exits with 4 if there are problems; ValueError for settings wrong on every machine."""
    with initialize(), on_command_line(arguments.overrides):
        config = compose(arguments.overrides)
        check_config(config)
    facts = findings(Path(str(config.outputs)))
    facts |= choose(config, facts)
    if arguments.json:
        print_json(facts)
    else:
        show("tiryns doctor", screen(facts))
    if facts["problems"]:
        sys.exit(DIFFERENT)


def findings(outputs: Path) -> Facts:
    """Returns the hardware, versions and extras of this machine by name, and the free disk space for `outputs`."""
    try:
        gpus = machine.gpus_of_torch()
    except Exception:  # torch is missing or broken, which `choose` tells
        gpus = []
    return {
        "processor": machine.processor(), "memory": machine.memory(), "gpus": gpus,
        "driver": machine.driver(),
        "disk": {"outputs": machine.disk(outputs), "cache": machine.disk(own_cache())},
        "slurm": machine.slurm(), "compiler": machine.compiler(),
        "versions": {name: environment()[name] for name in ("python", *PACKAGES)}, "extras": machine.extras(),
    }  # fmt: skip


def screen(facts: Facts) -> dict[str, dict[str, str]]:
    """Returns the findings as lines for people, by section."""
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items() if number)
    ready = [each["extra"] for each in facts["extras"] if each["installed"]]
    lacking = {each["extra"]: each["for"] for each in facts["extras"] if each["installed"] is False}
    of_driver = ", ".join(facts["driver"]["gpus"])
    unusable = f" that torch can use ({of_driver})" if of_driver else ""
    slurm = facts["slurm"]
    job = f"job {slurm['job']}, {slurm['nodes'] or '?'} nodes, {slurm['tasks'] or '?'} tasks"
    submits = "-m hydra/launcher=slurm submits jobs" if slurm["sbatch"] else "none"
    cpu = facts["processor"]
    units = " ".join(name for name in cpu["features"] if name in SHOWN_FEATURES)
    fewer = cpu["usable_cores"] != cpu["cores"]
    cores = f"{cpu['usable_cores']} of {cpu['cores']} cores for this process" if fewer else ""
    gpus = [
        f"{gpu['name']}, {_size(gpu['memory'])}, compute capability {gpu['capability']}, "
        f"{'with' if gpu['flash'] else 'without'} flash attention"
        for gpu in facts["gpus"]
    ]
    here = {
        "processor": ", ".join(filter(None, [cpu["name"], cpu["architecture"], cores, units])),
        "memory": f"{_size(facts['memory']['total'])}, {_size(facts['memory']['available'])} free",
        "GPU": "; ".join(gpus) or f"none{unusable}",
        "disk": ", ".join(f"{_size(each['free'])} free for {each['folder']}" for each in facts["disk"].values()),
        "SLURM": submits if slurm["job"] is None else job,
        "compiler": facts["compiler"] or "none",
        "versions": versions,
        "extras": ", ".join(ready) or "none",
    }  # fmt: skip
    values = {name: str(value) for name, value in facts["chosen"].items() if value is not None}
    return {
        "this machine": here,
        "a run would choose": {name: f"{value} ({facts['reasons'][name]})" for name, value in values.items()},
        "not installed": {name: f"pip install 'tiryns[{name}]': {purpose}" for name, purpose in lacking.items()},
        "worth changing": _by_number(facts["hints"]),
        "in the way": _by_number(facts["problems"]),
    }  # fmt: skip


def _size(number: int | None) -> str:
    return "unknown" if number is None else f"{number / GIB:,.1f} GiB"


def _by_number(lines: list[str]) -> dict[str, str]:
    return {str(number): line for number, line in enumerate(lines, start=1)}


def choose(config: DictConfig, facts: Facts) -> Facts:
    """Returns the values that a new run of this config would choose, the reasons for them, problems, and hints."""
    choices: dict[str, tuple[object, str]] = dict.fromkeys(CHOSEN, (None, ""))
    problems = []
    for package in machine.packages():
        if not (package.fits or package.extra):
            here = f"{package.version} is installed" if package.version else "it is missing"
            requirement = package.requirement
            problems.append(f"{requirement} is needed, and {here}: pip install '{requirement}'")
    disk = facts["disk"]["outputs"]
    if not disk["writable"]:
        problems.append(f"{disk['folder']} cannot be written: set outputs=FOLDER")
    try:
        choices |= _choose(config, problems)
    except Exception as error:  # what a broken torch raises, and what this machine lacks for the settings
        problems.append(explain(error) or f"{type(error).__name__}: {error}")
    values, reasons = ({name: pair[i] for name, pair in choices.items()} for i in (0, 1))
    return {"chosen": values, "reasons": reasons, "problems": problems, "hints": [*_hints(config, facts)]}


def _choose(config: DictConfig, problems: list[str]) -> dict[str, tuple[object, str]]:
    import torch

    from tiryns.runner.launch.job import nodes_to_join
    from tiryns.runner.loop.resolved import attention_of, choose_hardware
    from tiryns.runner.models.autocast import is_slower

    here = member()
    nodes = nodes_to_join(config, here)
    settings, trainer = config.trainer, choose_hardware(config, {}).trainer
    automatic = settings.get("precision", "auto") == "auto" and trainer.accelerator == "cpu"
    width = (config.model or {}).get("hidden_size")  # saved weights have it where it is not set
    narrow = automatic and is_slower(width if isinstance(width, int) else None)
    if narrow:
        trainer.precision = "32-true"
    on_gpu, per_node = trainer.accelerator == "gpu", processes_per_node(trainer)
    gpus = machine.gpus_of_torch() if on_gpu else []
    gpu_text = f"{len(gpus) or 'no'} GPU{'s' if len(gpus) > 1 else ''}"
    if on_gpu and per_node > len(gpus):
        problems.append(
            f"trainer.devices={trainer.devices}, but torch finds {gpu_text}; trainer.devices=auto takes all"
        )
    if here is not None and nodes == (1, 1):
        check_layout(trainer, per_node, here)
    own_processes = nodes != (1, 1) or (here is None and (per_node > 1 or trainer.get("max_restarts")))
    omp_value = os.environ.get("OMP_NUM_THREADS")
    threads = int(omp_value or threads_of_ranks(per_node)) if own_processes else torch.get_num_threads()
    attention = attention_of(None, "packed", trainer)
    layout = f"trainer.devices={settings.get('devices', 1)} trainer.num_nodes={settings.get('num_nodes', 1)}"
    each = "as OMP_NUM_THREADS says" if omp_value else "for each process, of the cores that it may use"
    why = _why_set(settings, "precision") or _why_precision(trainer.accelerator, narrow)
    return {
        "accelerator": (trainer.accelerator, _why_set(settings, "accelerator") or f"torch finds {gpu_text}"),
        "precision": (trainer.precision, why),
        "attention": (attention, f"in packed rows, {ATTENTION[attention]}"),
        "processes": (per_node * num_nodes(trainer), layout),
        "threads": (threads if trainer.accelerator == "cpu" else None, each),
    }


def _why_set(settings: DictConfig, name: str) -> str:
    return "" if settings.get(name, "auto") == "auto" else f"as trainer.{name} says"


def _why_precision(accelerator: str, narrow: bool) -> str:
    """Returns why `auto` chooses bf16 or fp32; `narrow` says that the model is so narrow that bf16 is slower."""
    from tiryns.runner.models.autocast import NARROW, has_bf16

    device = "GPU" if accelerator == "gpu" else "processor"
    if not has_bf16(accelerator):
        return f"this {device} has no bf16 units"
    caveat = ", unless a run's timed step is clearly faster in the other precision" * (device == "processor")
    if narrow:
        return f"this {device} has bf16 units, but bf16 is slower for a model narrower than {NARROW}{caveat}"
    return f"this {device} multiplies in bf16; a model that cannot is computed in 32-true{caveat}"


def _hints(config: DictConfig, facts: Facts) -> Iterator[str]:
    torch = sys.modules.get("torch")  # None where it is broken
    built = torch.version.cuda if torch else "?"
    usable, num_listed = len(facts["gpus"]), len(facts["driver"]["gpus"])
    if num_listed and not built:
        yield (
            f"nvidia-smi lists {num_listed} GPUs, but this torch is built without CUDA: install another build, "
            "see https://pytorch.org/get-started/locally/"
        )
    elif num_listed > usable:
        yield (
            f"nvidia-smi lists {num_listed} GPUs, and torch can use {usable}: the driver may be too old for CUDA "
            f"{built}, or CUDA_VISIBLE_DEVICES hides them"
        )
    wants = config.trainer.get("accelerator", "auto") != "cpu"
    if usable > 1 and wants and config.trainer.get("devices", 1) == 1:
        yield f"one of {usable} GPUs is used: trainer=ddp trainer.devices=auto takes all"
    quota, cores = facts["processor"]["quota"], facts["processor"]["usable_cores"]
    if quota and quota < cores and "OMP_NUM_THREADS" not in os.environ:
        threads = max(1, int(quota))
        yield f"the container may use {quota:g} of {cores} cores at once: export OMP_NUM_THREADS={threads}"
    if facts["compiler"] is None:
        yield "module.compile_model=true needs a C++ compiler, such as g++"
    disk = facts["disk"]["outputs"]
    if disk["free"] is not None and disk["free"] < FULL_DISK:
        yield f"{disk['folder']} has {disk['free'] / GIB:.1f} GiB left: outputs=FOLDER writes elsewhere"
