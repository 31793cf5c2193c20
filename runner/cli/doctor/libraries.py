"""The packages that this program needs, and those of its extras, as its own metadata lists them."""

from functools import cache
from importlib.metadata import PackageNotFoundError, requires
from typing import NamedTuple

from tiryns.runner.run.environment import version_of

EXTRAS = {
    "quantized": "optimizer.quantized=true",
    "tensorboard": "logger=tensorboard",
    "mlflow": "logger=mlflow",
    "trackio": "logger=trackio",
    "search": "hydra/sweeper=optuna, hydra/launcher=joblib",
    "corpus": "tiryns prepare corpus",
    "onnx": "tiryns push --format onnx",
    "signing": "tiryns verify --sign",
    "ray": "hydra/launcher=ray",
    "mteb": "data=mteb",
    "sequences": "data=proteins",
    "peft": "model.adapter=lora",
    "sentence-transformers": "SentenceTransformer('<run>/model')",
    "mcp": "tiryns mcp",
    "lmms-eval": "tiryns-lmms-eval RUN --tasks (docs/examples/lmms-eval)",
}
"""What each extra of this program is for."""


class Package(NamedTuple):
    """A requirement, such as `torch<3,>=2.10`, and the version that is installed."""

    requirement: str
    version: str | None
    fits: bool


def needed() -> list[Package]:
    """The packages without which nothing runs; empty where this program is not installed as a package."""
    return [_package(line) for line, extra in _requirements() if extra is None]


def extras() -> list[dict[str, object]]:
    """Each extra with what it is for, whether all of its packages are there, and those that are not.

    Where this program is not installed as a package, `installed` is None.
    """
    found: list[dict[str, object]] = []
    for extra, purpose in EXTRAS.items():
        packages = [_package(line) for line, of in _requirements() if of == extra]
        missing = [package.requirement for package in packages if not package.fits]
        installed = not missing if packages else None
        found.append({"extra": extra, "for": purpose, "installed": installed, "missing": missing})
    return found


@cache
def _requirements() -> tuple[tuple[str, str | None], ...]:
    """Every requirement, such as `torch<3,>=2.10`, with the extra that it is of."""
    from packaging.requirements import Requirement

    found = []
    try:
        lines = requires("tiryns") or []
    except PackageNotFoundError:
        lines = []
    for line in lines:
        requirement = Requirement(line)
        extra = next((name for name in EXTRAS if f'extra == "{name}"' in str(requirement.marker)), None)
        if extra is None and requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue  # of another platform, or of an extra for who works on this program
        requirement.marker = None
        found.append((str(requirement), extra))
    return tuple(found)


def _package(line: str) -> Package:
    from packaging.requirements import Requirement

    wanted = Requirement(line)
    here = version_of(wanted.name)
    return Package(line, here, here is not None and wanted.specifier.contains(here, prereleases=True))
