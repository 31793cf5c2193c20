"""Data sets of megatron-energon: `module` for Lightning, `run` for a run, `tasks` from samples to micro-batches."""

from importlib import import_module
from typing import Any

_HOMES = {
    "EnergonDataloader": "loader",
    "EnergonMultiModalDataModule": "module",
    "MultiModalSampleConfig": "module",
    "cyclic_iter": "loader",
    "logger": "module",
}

__all__ = [
    "EnergonDataloader",
    "EnergonMultiModalDataModule",
    "MultiModalSampleConfig",
    "cyclic_iter",
    "logger",
]


def __getattr__(name: str) -> Any:
    """Imports what is documented when it is first named."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
