"""Versions, machine and git state that a run used. Imports nothing heavy."""

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("iolaus", "torch", "lightning", "transformers", "datasets", "hydra-core", "omegaconf", "numpy")


@cache
def environment() -> dict[str, str | bool | None]:
    """Versions of Python and of the packages that matter, processor, GPUs, host and the git state of the folder.

    Asked once in a process: the code it runs is the one it started with.
    """
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
    """What a command prints, or None where it is missing, fails or does not answer within a minute."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
