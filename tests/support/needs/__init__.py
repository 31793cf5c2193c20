"""What a test needs of the machine and of the environment; a test that lacks it is skipped with the reason `needs ...`.

- `package`, `version`, `browser`, `slurm` and `gpu` skip a test, and return what it needs.
- `NOT_INSTALLABLE` and `FROM_DEBIAN` list what may be missing; CONTRIBUTING.md says where such tests run.
- `skips` is the plugin of pytest that turns every other skip into a failure where TIRYNS_TEST_NO_SKIPS is set.
"""

import os
import re
import shutil
from collections.abc import Sequence
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any, NoReturn

import pytest
from packaging.version import Version

VARIABLE = "TIRYNS_TEST_NO_SKIPS"
"""Names the extras and further packages that are installed: `dev,mteb,spacy`; `.ci/run` and `make test-all` set it."""

EXTRAS = {
    "alembic": "mlflow", "hydra_plugins.hydra_ray_launcher": "ray", "lmms_eval": "lmms-eval",
    "material": "docs", "mlflow": "mlflow", "model_signing": "signing", "mteb": "mteb", "onnx": "onnx",
    "onnxruntime": "onnx", "onnxscript": "onnx", "ray": "ray", "sqlalchemy": "mlflow",
    "tidytcells": "sequences", "trackio": "trackio",
}  # fmt: skip
"""The extra that installs a package, by the package's name in Python; `dev` installs all others."""

FURTHER = ("spacy",)
"""Packages that no extra installs."""

NOT_INSTALLABLE = {
    r"needs a GPU": "`make test` where torch finds a CUDA device",
    r"needs to mount a disk": "`make test` (Linux, as root)",
    r".*\bprocessor\b.*": "`make test` on such a processor",
    r"needs \w+ \d[\d.]*: .*": "`make test`, which installs newer versions",
    r"reads the memory from /proc|glibc alone gives freed memory back": "`make test` on Linux",
}
"""Patterns of reasons that no installation removes, and where such tests run."""

FROM_DEBIAN = {
    r"needs a browser": "`.ci/run` and `make test-all` (Debian, as root)",
    r"needs a SLURM cluster.*": "`make test-all` and `make test-slurm` (Debian, as root)",
}
"""Patterns of reasons that `apt-get install` removes, and where such tests run."""


def package(name: str) -> Any:
    """Imports a package, or a module of one; skips the test where the extra that has it is not installed."""
    if name in FURTHER and not find_spec(name):
        _skip(f"needs the package {name}: pip install {name}")
    extra = EXTRAS.get(name, EXTRAS.get(name.partition(".")[0], "dev"))
    try:
        return import_module(name)
    except ModuleNotFoundError:
        _skip(f"needs the extra {extra}: pip install 'tiryns[{extra}]'")


def version(name: str, least: str, why: str) -> None:
    """Skips the test where a package is older than `least`; `why` says what the older one does."""
    installed = metadata.version(name)
    if Version(installed) < Version(least):
        _skip(f"needs {name} {least}: {why}")


def browser() -> str:
    """Returns the path of Chromium or Chrome."""
    programs = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
    return next(filter(None, programs), None) or _skip("needs a browser")


def slurm(missing: str) -> NoReturn:
    """Skips a test of a SLURM cluster, and says what is missing for one."""
    _skip(f"needs a SLURM cluster: {missing}")


def gpu() -> None:
    """Skips the test where torch finds no CUDA device."""
    import torch

    if not torch.cuda.is_available():
        _skip("needs a GPU")


def mounts() -> NoReturn:
    """Skips a test that mounts a disk of its own."""
    _skip("needs to mount a disk")


def can_install() -> bool:
    """Whether `apt-get install` works here."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def is_allowed(reason: str, installed: Sequence[str]) -> bool:
    """Whether a test may be skipped for `reason` where the extras and packages `installed` are."""
    patterns = [*NOT_INSTALLABLE, *([] if can_install() else FROM_DEBIAN)]
    package = re.match(r"needs the (?:extra|package) ([\w-]+)", reason)
    if package:
        return package[1] not in installed
    return any(re.fullmatch(pattern, reason, re.DOTALL) for pattern in patterns)


def _skip(reason: str) -> NoReturn:
    __tracebackhide__ = True
    raise pytest.skip.Exception(reason, allow_module_level=True)
