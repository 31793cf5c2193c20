"""Versions, machine and git state that a run used. Imports nothing heavy."""

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("iolaus", "torch", "lightning", "transformers", "datasets", "hydra-core", "omegaconf", "numpy")


@cache
def environment() -> dict[str, str | bool | None]:
    """Versions, processor, GPUs, host and git state, found once in a process: its code is that of its start."""
    status = output_of("git", "status", "--porcelain", "--untracked-files=no")
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        **{package: _version(package) for package in PACKAGES},
        "cpu": _cpu(),
        "gpus": output_of("nvidia-smi", "--query-gpu=name", "--format=csv,noheader"),
        "hostname": platform.node(),
        "git_commit": output_of("git", "rev-parse", "HEAD"),
        "git_dirty": None if status is None else bool(status),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]} x {len(names)}" if names else platform.processor()


def output_of(*command: str) -> str | None:
    """The output of a command; None where it is missing, fails or takes more than a minute."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
