"""Finds the hardware and packages of this machine. Only `gpus_of_torch` uses torch. Unknown values are None."""

import contextlib
import os
import shutil
from functools import cache
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any, NamedTuple

from tiryns.runner.run.cluster import slurm_job
from tiryns.runner.run.environment import CGROUPS, cpu_quota, machine, num_cores, output_of, version_of

Facts = dict[str, Any]
"""Values of one part of the machine, such as a disk, by name."""

GIB = 2**30

COMPILERS = ("g++", "clang++", "c++")

EXTRAS = {
    "quantized": "optimizer.quantized=true", "tensorboard": "logger=tensorboard", "mlflow": "logger=mlflow",
    "trackio": "logger=trackio", "search": "hydra/sweeper=optuna, hydra/launcher=joblib",
    "corpus": "tiryns prepare corpus", "onnx": "tiryns push --format onnx", "signing": "tiryns verify --sign",
    "ray": "hydra/launcher=ray", "mteb": "data=mteb", "sequences": "data=proteins",
    "peft": "model.adapter=lora", "sentence-transformers": "SentenceTransformer('<run>/model')",
    "mcp": "tiryns mcp", "lmms-eval": "tiryns-lmms-eval RUN --tasks (docs/examples/lmms-eval)",
}  # fmt: skip


def processor() -> Facts:
    """Returns name, architecture, features that kernels depend on, numbers of all and of usable cores, and `quota`."""
    facts = machine()
    return {
        "name": facts["cpu"] or facts["processor"], "architecture": facts["processor"],
        "features": facts["features"], "cores": facts["cores"], "usable_cores": num_cores(), "quota": cpu_quota(),
    }  # fmt: skip


def memory() -> dict[str, int | None]:
    """Returns total and available bytes of memory: of this machine, or of the container or job if its limit is lower."""
    total, free, limit = None, None, None
    with contextlib.suppress(OSError, ValueError, AttributeError):
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    # free pages and what the kernel would give up
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = 1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1])
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # "max" is no limit
            limit = int((CGROUPS / name).read_text())
    if limit is not None and total is not None and limit < total:
        total, free = limit, min(limit, free or limit)
    return {"total": total, "available": free}


def disk(folder: Path) -> Facts:
    """Returns the free bytes of a folder's disk, and whether the folder is writable or, if it is missing, can be made."""
    whole = folder.expanduser().absolute()
    there = next((path for path in (whole, *whole.parents) if path.exists()), whole)
    free = None
    with contextlib.suppress(OSError):
        free = shutil.disk_usage(there).free
    return {"folder": folder, "free": free, "writable": os.access(there, os.W_OK)}


def slurm() -> Facts:
    """Returns the job of this process with its nodes and tasks, and whether jobs can be submitted from here."""
    names = {"nodes": "SLURM_JOB_NUM_NODES", "tasks": "SLURM_NTASKS"}
    counts = {name: int(os.environ[variable]) for name, variable in names.items() if variable in os.environ}
    return {"job": slurm_job(), "nodes": None, "tasks": None, **counts, "sbatch": shutil.which("sbatch")}


def compiler() -> str | None:
    """Returns the C++ compiler that torch.compile would call."""
    cxx = os.environ.get("CXX")
    return next((name for name in ([cxx] if cxx else COMPILERS) if shutil.which(name)), None)


def driver() -> Facts:
    """Returns the version of NVIDIA's driver, and the GPUs that it lists."""
    output = output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    gpus = [line for line in (machine()["gpus"] or "").splitlines() if line]
    return {"version": output.splitlines()[0] if output else None, "gpus": gpus}


def gpus_of_torch() -> list[Facts]:
    """Returns the GPUs that torch can use: name, bytes, compute capability, and whether they have flash attention."""
    import torch

    from tiryns.runner.models.packed.kernels import gpu_has_flash

    gpus = []
    for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        facts = torch.cuda.get_device_properties(number)
        capability = ".".join(map(str, torch.cuda.get_device_capability(number)))
        flash = gpu_has_flash(torch.device("cuda", number))
        gpus.append(
            {"name": facts.name, "memory": facts.total_memory, "capability": capability, "flash": flash}
        )
    return gpus


class Package(NamedTuple):
    """A requirement (`torch<3,>=2.10`), the installed version, whether it fits, and the extra that needs it, if any."""

    requirement: str
    version: str | None
    fits: bool
    extra: str | None


@cache
def packages() -> tuple[Package, ...]:
    """Returns the packages that the metadata of tiryns requires, with its extras; empty if tiryns is not installed."""
    from packaging.requirements import Requirement

    try:
        lines = requires("tiryns") or []
    except PackageNotFoundError:
        lines = []
    entries = []
    for requirement in map(Requirement, lines):
        extra = next((name for name in EXTRAS if f'extra == "{name}"' in str(requirement.marker)), None)
        # others are of another platform, or of an extra for who works on this program
        if extra or requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            requirement.marker, here = None, version_of(requirement.name)
            fits = here is not None and requirement.specifier.contains(here, prereleases=True)
            entries.append(Package(str(requirement), here, fits, extra))
    return tuple(entries)


def extras() -> list[Facts]:
    """Returns each extra, its purpose, whether all of its packages are installed (None if unknown), and missing ones."""
    rows = []
    for extra, purpose in EXTRAS.items():
        of_extra = [package for package in packages() if package.extra == extra]
        missing = [package.requirement for package in of_extra if not package.fits]
        is_installed = not missing if of_extra else None
        rows.append({"extra": extra, "for": purpose, "installed": is_installed, "missing": missing})
    return rows
