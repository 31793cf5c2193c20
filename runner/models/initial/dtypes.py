"""The type of a model's weights: the precision of the run decides it, whatever type a file has.

Every model is loaded by `load_model`, and a run builds and loads its models inside `weights_of(precision)`. Outside of a
run weights are at least fp32. Half precision is set on the finished model; the trials before training are in fp32.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from torch import nn
from transformers.utils import cached_file

from tiryns.runner.config.loading import from_pretrained

OTHER_THAN_FP32 = {
    "64-true": torch.float64, "64": torch.float64, "bf16-true": torch.bfloat16, "16-true": torch.float16
}  # fmt: skip
"""Types of weights by `trainer.precision`; `32-true`, `auto` and the mixed precisions train fp32 weights."""

WEIGHTS = "weights"
"""The key in `resolved` of a run's status under which the types of its weights are."""

Model = TypeVar("Model", bound=nn.Module)

STORED = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""Types of weights by their names in safetensors."""


class _Run(NamedTuple):
    """The type in which a run holds its models, and a line of text about each file that has another type."""

    dtype: torch.dtype
    lines: list[str]


_run: ContextVar[_Run | None] = ContextVar("run", default=None)


def weights_dtype(precision: object) -> torch.dtype:
    """Returns the type of the weights that a run in `precision` trains and exports.

    Example:
        >>> weights_dtype("bf16-mixed"), weights_dtype("bf16-true")
        (torch.float32, torch.bfloat16)
    """
    return OTHER_THAN_FP32.get(str(precision), torch.float32)


def types_of(module: nn.Module, precision: str) -> str:
    """Returns the names of the types in which a run trains the weights of a module.

    Example:
        >>> types_of(nn.Linear(2, 2), "bf16-mixed"), types_of(nn.Linear(2, 2), "bf16-true")
        ('float32', 'bfloat16')
    """
    if other := OTHER_THAN_FP32.get(precision):
        return names_of({other})
    return names_of({p.dtype for p in module.parameters() if p.is_floating_point()})


@contextmanager
def weights_of(precision: object) -> Iterator[list[str]]:
    """In the block, loads models as a run in `precision` does; yields a list of lines, one per file of another dtype."""
    run = _Run(weights_dtype(precision), [])
    token = _run.set(run)
    try:
        yield run.lines
    finally:
        _run.reset(token)


def as_held(model: Model) -> Model:
    """Converts a model that was built in a run, in place, to the dtype in which the run loads models."""
    run = _run.get()
    wide = run is not None and run.dtype == torch.float64
    return model.double() if wide else model


def load_model(auto: type, path: str, **options: object) -> Any:
    """Loads a model with the class `auto`, in the type of the run, or outside of a run in at least fp32.

    Raises CustomCodeRefused, or an error of transformers.
    """
    dtypes, run = saved_dtypes(path), _run.get()
    wide = torch.float64 in dtypes if run is None else run.dtype == torch.float64
    model = from_pretrained(auto, path, dtype=torch.float64 if wide else torch.float32, **options)
    if run is not None and dtypes - {run.dtype}:
        line = f"{names_of(dtypes)} in {path}, held in {names_of({run.dtype})}"
        run.lines.extend([] if line in run.lines else [line])
    return model


def saved_dtypes(path: str) -> set[torch.dtype]:
    """Returns the types of the weights in a model folder or under a name of the hub; empty if unknown."""
    try:
        names: set[str] = set()
        for file in _files(path):
            with safe_open(file, framework="pt") as tensors:  # which reads the header alone
                names |= {tensors.get_slice(name).get_dtype() for name in tensors.keys()}  # noqa: SIM118  no mapping
        if dtypes := {STORED[name] for name in names if name in STORED}:
            return dtypes
        config = json.loads(Path(str(cached_file(path, "config.json"))).read_text())
        dtype = getattr(torch, str(config.get("dtype") or config.get("torch_dtype")), None)
        return {dtype} if isinstance(dtype, torch.dtype) else set()
    except (OSError, ValueError, SafetensorError):  # loading tells what is wrong with the files
        return set()


def _files(path: str) -> list[str]:
    """Returns the paths of a model's safetensors: a single file or its shards; empty for another format."""
    for name in ("model.safetensors", "model.safetensors.index.json"):
        try:
            file = str(cached_file(path, name))
        except OSError:
            continue
        if file.endswith(".json"):
            shards = set(json.loads(Path(file).read_text())["weight_map"].values())
            return [str(cached_file(path, shard)) for shard in sorted(shards)]
        return [file]
    return []


def names_of(dtypes: set[torch.dtype]) -> str:
    """Returns the names of types, such as `bfloat16 and float32`."""
    return " and ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes))
