"""Versions, machine and git state that a run used. Imports nothing heavy."""

import contextlib
import math
import os
import platform
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path
from typing import Any

PACKAGES = ("tiryns", "torch", "lightning", "transformers", "datasets", "hydra-core", "omegaconf", "numpy")


FEATURES = ("avx2", "fma", "f16c", "avx512f", "avx512_bf16", "avx512_fp16", "avx512_vnni", "amx_tile", "amx_bf16",
            "asimd", "asimdhp", "sve", "sve2", "bf16", "i8mm")  # fmt: skip
"""Features of a processor that decide which kernels are chosen and how sums are rounded."""

KERNEL_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "KMP_AFFINITY", "MKL_CBWR",
                    "CUBLAS_WORKSPACE_CONFIG", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA",
                    "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")  # fmt: skip
"""Environment variables that decide which kernels compute and how sums are cut."""

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
"""The folder with the sizes of a processor's caches on Linux. Libraries split matrices by these sizes."""

CGROUPS = Path("/sys/fs/cgroup")
"""Folder with the limits of a container or job under Linux: cgroup version 2 at its top, version 1 in its subfolders."""


def num_cores() -> int:
    """Returns the number of cores that this process may use; a job often has only a part of the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_quota() -> float | None:
    """Returns the number of cores that a container may use at once, such as 1.5; None if it is not limited."""
    with contextlib.suppress(OSError, ValueError):  # "max" is no quota
        quota, period = (CGROUPS / "cpu.max").read_text().split()
        return int(quota) / int(period)
    return None


def num_processes() -> int:
    """Returns how many processes can compute at once: one for each usable core, or as many as the quota allows."""
    return max(1, int(min(num_cores(), cpu_quota() or math.inf)))


@cache
def environment() -> dict[str, str | bool | None]:
    """Returns versions, processor, GPUs, host and the program's git state, as of the first call in this process."""
    here = checkout()
    git = ("git", "-C", str(here))
    status = output_of(*git, "status", "--porcelain", "--untracked-files=no") if here else None
    names = _core_lines("model name")
    cpu = f"{names[0]} x {len(names)}" if names else platform.processor()
    return {
        "python": platform.python_version(), "platform": platform.platform(),
        **{package: version_of(package) for package in PACKAGES}, "cpu": cpu,
        "gpus": output_of("nvidia-smi", "--query-gpu=name", "--format=csv,noheader"),
        "hostname": platform.node(), "git_commit": output_of(*git, "rev-parse", "HEAD") if here else None,
        "git_dirty": None if status is None else bool(status),
    }  # fmt: skip


@cache
def checkout() -> Path | None:
    """Returns the git checkout that the program runs from; None if it is installed, even inside another checkout."""
    here = Path(__file__).resolve().parents[2]
    top = output_of("git", "-C", str(here), "rev-parse", "--show-toplevel")
    return here if top and Path(top).resolve() == here else None


def version_of(package: str) -> str | None:
    """Returns the version of a package; None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def as_word(name: str, value: str) -> str:
    """Returns a value that is safe as one word of a command or a script.

    Raises ValueError for a leading dash, which begins an option, and a line break, which ends a batch script's comment.

    Example:
        >>> as_word("hydra.launcher.partition", "gpu")
        'gpu'
    """
    if value.startswith("-") or not value.isprintable():
        raise ValueError(
            f"{name}={value!r}: expected one line of printable characters that does not begin with a dash"
        )
    return value


def output_of(*command: str, **variables: str) -> str | None:
    """Returns a command's output, given extra environment `variables`; None if it is missing, fails or takes a minute."""
    try:
        how: dict[str, Any] = {"capture_output": True, "text": True, "check": True, "timeout": 60}
        return str(subprocess.run(command, env={**os.environ, **variables}, **how).stdout).strip()
    except (OSError, subprocess.SubprocessError):
        return None


def machine() -> dict[str, Any]:
    """Returns Python, platform, processor with its features, GPUs, and environment variables that change kernels."""
    facts = environment()
    basics = {name: facts[name] for name in ("python", "platform", "cpu", "gpus", "hostname")}
    flags = next(iter(_core_lines("flags", "features")), "").split()
    return {
        **basics,
        "processor": platform.machine(),
        "features": [name for name in FEATURES if name in flags],
        "caches": " ".join(file.read_text().strip() for file in sorted(CACHES.glob("index*/size"))),
        "cores": os.cpu_count(),
        **{name: os.environ[name] for name in KERNEL_VARIABLES if name in os.environ},
    }


@cache
def packages() -> dict[str, str]:
    """Returns every installed distribution with its version, without the copies that an imported setuptools adds."""
    places = [place for place in sys.path if Path(place).name != "_vendor"]
    pairs = []
    for one in distributions(path=places):  # to parse all of their metadata takes much longer
        text = one.read_text("METADATA") or one.read_text("PKG-INFO") or ""
        head = dict(line.partition(": ")[::2] for line in text.partition("\n\n")[0].splitlines())
        pairs.append((head.get("Name", ""), head.get("Version", "")))
    return {name.lower(): version for name, version in sorted(pairs) if name}


@cache
def _core_lines(*names: str) -> list[str]:
    """Returns each core's value in `/proc/cpuinfo` under one of these names; empty on other systems."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return [line.partition(":")[2].strip() for line in lines if line.lower().startswith(names)]
