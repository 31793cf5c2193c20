"""Versions, machine and git state that a run used. Imports nothing heavy."""

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("tiryns", "torch", "lightning", "transformers", "datasets", "hydra-core", "omegaconf", "numpy")


@cache
def environment() -> dict[str, str | bool | None]:
    """Versions, processor, GPUs, host and the program's git state, found once in a process, as of its start."""
    here = checkout()
    git = ("git", "-C", str(here))
    status = output_of(*git, "status", "--porcelain", "--untracked-files=no") if here else None
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    cpu = f"{names[0]} x {len(names)}" if names else platform.processor()
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        **{package: version_of(package) for package in PACKAGES},
        "cpu": cpu,
        "gpus": output_of("nvidia-smi", "--query-gpu=name", "--format=csv,noheader"),
        "hostname": platform.node(),
        "git_commit": output_of(*git, "rev-parse", "HEAD") if here else None,
        "git_dirty": None if status is None else bool(status),
    }


@cache
def checkout() -> Path | None:
    """The git checkout that the program runs from; None where it is installed, also inside another checkout."""
    here = Path(__file__).resolve().parents[2]
    top = output_of("git", "-C", str(here), "rev-parse", "--show-toplevel")
    return here if top and Path(top).resolve() == here else None


def version_of(package: str) -> str | None:
    """The version of a package; None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def as_word(name: str, value: str) -> str:
    """Returns a value that a program or a script is given as one word.

    A line break would end a comment of a batch script, and a leading dash makes an option. ValueError for either.
    """
    if value.startswith("-") or not value.isprintable():
        raise ValueError(
            f"{name}={value!r}: expected one line of printable characters that does not begin with a dash"
        )
    return value


def output_of(*command: str, **variables: str) -> str | None:
    """The output of a command, with further environment `variables`; None if it is missing, fails or takes a minute."""
    try:
        how: dict[str, Any] = {"capture_output": True, "text": True, "check": True, "timeout": 60}
        return str(subprocess.run(command, env={**os.environ, **variables}, **how).stdout).strip()
    except (OSError, subprocess.SubprocessError):
        return None
