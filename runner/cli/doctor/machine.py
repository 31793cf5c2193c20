"""Finds what a machine has, without torch but for the GPUs that torch can use. Whatever cannot be found out is None."""

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any

from tiryns.runner.launch.processes import num_cores
from tiryns.runner.run.cluster import slurm_job
from tiryns.runner.run.environment import machine, output_of

Facts = dict[str, Any]
"""What is found of a part of the machine, by name."""

GIB = 2**30

CGROUPS = Path("/sys/fs/cgroup")
"""Where Linux tells what a container or a job may use: version 2 of control groups at its top, version 1 below."""

MEMORY_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")

COMPILERS = ("g++", "clang++", "c++")


def processor() -> Facts:
    """Name, architecture, units by which kernels are chosen, and cores: all, and those that this process may use."""
    facts = machine()
    return {
        "name": facts["cpu"] or facts["processor"],
        "architecture": facts["processor"],
        "features": facts["features"],
        "cores": facts["cores"],
        "usable_cores": num_cores(),
        "quota": _quota(),
    }


def memory() -> dict[str, int | None]:
    """Bytes of this machine, or of the container or job where that has less; and those that are free."""
    total, free, limit = None, None, None
    with contextlib.suppress(OSError, ValueError, AttributeError):
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    # free pages and what the kernel would give up
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = 1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1])
    for name in MEMORY_LIMITS:
        with contextlib.suppress(OSError, ValueError):  # "max" is no limit
            limit = int((CGROUPS / name).read_text())
    if limit is not None and total is not None and limit < total:
        total, free = limit, min(limit, free or limit)
    return {"total": total, "available": free}


def disk(folder: Path) -> Facts:
    """Free bytes where a folder is, or would be made, and whether it can be written."""
    whole = folder.expanduser().absolute()
    there = next((path for path in (whole, *whole.parents) if path.exists()), whole)
    free = None
    with contextlib.suppress(OSError):
        free = shutil.disk_usage(there).free
    return {"folder": folder, "free": free, "writable": os.access(there, os.W_OK)}


def slurm() -> Facts:
    """The job of this process with its nodes and tasks, and whether jobs can be submitted from here."""
    names = {"nodes": "SLURM_JOB_NUM_NODES", "tasks": "SLURM_NTASKS"}
    counts = {name: int(os.environ[variable]) for name, variable in names.items() if variable in os.environ}
    return {"job": slurm_job(), "nodes": None, "tasks": None, **counts, "sbatch": shutil.which("sbatch")}


def compiler() -> str | None:
    """The C++ compiler that torch.compile would call."""
    named = os.environ.get("CXX")
    return next((name for name in ([named] if named else COMPILERS) if shutil.which(name)), None)


def gpus_of_driver() -> list[str]:
    """The GPUs that NVIDIA's driver lists."""
    return [line for line in (machine()["gpus"] or "").splitlines() if line]


def driver() -> str | None:
    """The version of NVIDIA's driver."""
    found = output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return found.splitlines()[0] if found else None


def gpus_of_torch() -> list[Facts]:
    """The GPUs that torch can use: name, bytes, compute capability, and whether they have flash attention."""
    import torch

    from tiryns.runner.models.packed.kernels import gpu_has_flash

    found = []
    for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        facts = torch.cuda.get_device_properties(number)
        capability = ".".join(map(str, torch.cuda.get_device_capability(number)))
        flash = gpu_has_flash(torch.device("cuda", number))
        found.append(
            {"name": facts.name, "memory": facts.total_memory, "capability": capability, "flash": flash}
        )
    return found


def _quota() -> float | None:
    """The cores that a container may use at once, where its share is less than whole cores that it sees."""
    with contextlib.suppress(OSError, ValueError):  # "max" is no quota
        quota, period = (CGROUPS / "cpu.max").read_text().split()
        return int(quota) / int(period)
    return None
