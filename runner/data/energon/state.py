"""The state of an energon stream as plain values, for checkpoints that are loaded without running code."""

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch
from megatron.energon.flavors.webdataset.sample_loader import SliceState
from megatron.energon.rng import SystemRngState
from megatron.energon.savable_loader import SavableDataLoaderState as LoaderState
from megatron.energon.savable_loader import SavableDatasetCheckpoint as DatasetCheckpoint
from megatron.energon.savable_loader import SavableDatasetState as DatasetState
from megatron.energon.state import FlexState

_DATACLASSES = (LoaderState, DatasetCheckpoint, DatasetState, SliceState, SystemRngState)
_RECORDS: dict[str, type] = {kind.__name__: kind for kind in _DATACLASSES}
"""The dataclasses that a state is made of."""

_KIND, _FIELDS = "energon", "fields"


def to_plain(value: Any) -> Any:
    """A state as dicts, lists, tuples, numbers, text, bytes and tensors. Raises TypeError for a part of unknown type."""
    name = type(value).__name__
    if is_dataclass(value) and _RECORDS.get(name) is type(value):
        return {_KIND: name, _FIELDS: {f.name: to_plain(getattr(value, f.name)) for f in fields(value)}}
    if isinstance(value, FlexState):
        return {_KIND: "FlexState", _FIELDS: {n: to_plain(v) for n, v in value.items()}}
    if isinstance(value, np.ndarray):
        # Weights-only loading knows no tensors of every unsigned type, so the type is saved by name.
        values = torch.from_numpy(value.astype(np.int64))
        return {_KIND: "ndarray", _FIELDS: {"type": value.dtype.str, "values": values}}
    if isinstance(value, dict):
        return {n: to_plain(v) for n, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(to_plain(v) for v in value)
    if isinstance(value, np.integer):
        return int(value)
    if value is None or isinstance(value, bool | int | float | str | bytes | torch.Tensor):
        return value
    raise TypeError(f"a state of energon holds a {type(value).__module__}.{name}, which cannot be saved")


def from_plain(value: Any) -> Any:
    """The inverse of `to_plain`."""
    if isinstance(value, dict):
        if _KIND not in value:
            return {n: from_plain(v) for n, v in value.items()}
        kind, members = value[_KIND], {n: from_plain(v) for n, v in value[_FIELDS].items()}
        if kind == "FlexState":
            return FlexState(members)
        if kind == "ndarray":
            return members["values"].numpy().astype(np.dtype(members["type"]))
        return _RECORDS[kind](**members)
    if isinstance(value, list | tuple):
        return type(value)(from_plain(v) for v in value)
    return value
