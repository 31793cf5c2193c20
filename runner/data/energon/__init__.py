"""Data sets of megatron-energon: tar shards that are read as a stream.

- `module`: `EnergonMultiModalDataModule`, the data module for Lightning; `run`: `EnergonData`, the one of a run.
- `tasks`: the task encoder, from samples to micro-batches; `examples`: conversations without tokens and pixels.
- `loader`: an endless stream that resumes at any batch; `state`: its state as plain values.
- `batches`: micro-batches as shares of global batches, and passes for evaluation.
- `errors`: samples that cannot be read; `replicas`: which replica reads here.
- `source`: checks of a data set on disk; `shards`, `prepare`: writing one.
"""

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
