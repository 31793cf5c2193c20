"""The machine that a run is computed on, and the packages that are installed there."""

import contextlib
import os
import platform
import sys
from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path

from tiryns.runner.manifest.inputs import Manifest
from tiryns.runner.run.environment import environment

FEATURES = ("avx2", "fma", "f16c", "avx512f", "avx512_bf16", "avx512_fp16", "avx512_vnni", "amx_tile", "amx_bf16",
            "asimd", "asimdhp", "sve", "sve2", "bf16", "i8mm")  # fmt: skip
"""Units of a processor by which kernels are chosen and sums are rounded."""

KERNEL_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "KMP_AFFINITY", "MKL_CBWR",
                    "CUBLAS_WORKSPACE_CONFIG", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA",
                    "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")  # fmt: skip
"""Environment variables that decide which kernels compute and how sums are cut."""

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
"""Where Linux tells the sizes of a processor's caches, by which libraries cut matrices."""


def machine() -> Manifest:
    """Python, platform, processor with its features, GPUs, and the environment's limits on kernels."""
    facts = environment()
    kept = {name: facts[name] for name in ("python", "platform", "cpu", "gpus", "hostname")}
    return {
        **kept,
        "processor": platform.machine(),
        "features": _features(),
        "caches": " ".join(file.read_text().strip() for file in sorted(CACHES.glob("index*/size"))),
        "cores": os.cpu_count(),
        **{name: os.environ[name] for name in KERNEL_VARIABLES if name in os.environ},
    }


@cache
def packages() -> dict[str, str]:
    """Every installed distribution with its version; not the copies that setuptools shows once it is imported."""
    places = [place for place in sys.path if Path(place).name != "_vendor"]
    found = [_name_and_version(one) for one in distributions(path=places)]
    return {name.lower(): version for name, version in sorted(found, key=str) if name}


def _name_and_version(distribution: Distribution) -> tuple[str, str]:
    """Read from the head of its metadata, which is much faster than to parse all of that."""
    text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    head = dict(line.partition(": ")[::2] for line in text.partition("\n\n")[0].splitlines())
    return head.get("Name", ""), head.get("Version", "")


@cache
def _features() -> list[str]:
    flags: set[str] = set()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        first = next((line for line in lines if line.lower().startswith(("flags", "features"))), "")
        flags = set(first.partition(":")[2].split())
    return [name for name in FEATURES if name in flags]
