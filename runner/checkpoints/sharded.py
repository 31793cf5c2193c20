"""Sharded checkpoints: each rank writes its shard in the background into a folder of torch.distributed.checkpoint.

`step-<n>.ckpt/` holds the shards, their metadata (`.metadata`), and everything else in `rest.pt`. The first rank renames
the folder once every rank has written. Any number of processes can read it, with shards or without.
"""

import io
import os
import pickle
import shutil
import warnings
import zipfile
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from enum import Enum
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from torch.distributed.tensor import DTensor

from tiryns.runner.protocols import State

REST = "rest.pt"
SHARD = "a shard"
"""First of the pair (`SHARD`, name), which replaces a sharded tensor in `rest.pt`."""

_PLAIN = {
    "torch.distributed.checkpoint.metadata": None,
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "torch.serialization": {"_get_layout"},
    "pathlib": {"PosixPath"},  # where it was first written
    "torch": {"Size", *(str(d)[6:] for d in vars(torch).values() if isinstance(d, torch.dtype))},
}
"""Modules, and names in them (None for all), that the metadata may use."""


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("builtins", "getattr"):
            return _member
        module = "pathlib" if module == "pathlib._local" else module  # as Python 3.13 says
        names = _PLAIN.get(module, set())
        if (names is not None and name not in names) or "." in name:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no checkpoint needs")
        return super().find_class(module, name)


def _member(kind: object, name: str) -> Enum:
    """Returns a member of an enumeration; some versions of Python (3.11.2) pickle a member as a call of `getattr`."""
    if not (isinstance(kind, type) and issubclass(kind, Enum) and name in kind.__members__):
        raise pickle.UnpicklingError(f"it asks for {kind!r}.{name}, which no checkpoint needs")
    return kind[name]


class PlainReader(FileSystemReader):
    """Torch's reader of shards that refuses metadata that would run code."""

    def read_metadata(self, *args: object, **kwargs: object) -> Metadata:
        with open(self.path / ".metadata", "rb") as file:  # type: ignore[operator]
            return _PlainUnpickler(file).load()


class ShardWriter:
    """Writes one checkpoint at a time, in a separate process group that training does not wait for."""

    _group: ProcessGroup | None = None

    def start(self, checkpoint: State, path: Path, first: bool) -> Callable[[], None]:
        """Copies the shards and begins to write them; returns a function to finish the checkpoint. All ranks call it."""
        if self._group is None:
            group = torch.distributed.new_group(backend="gloo")
            assert isinstance(group, ProcessGroup)  # every rank is a member
            self._group = group
        temporary = path.with_name(f".{path.name}.tmp")
        if first:
            delete_partial(path.parent)
        shards: dict[str, Tensor] = {}
        rest = separate(checkpoint, shards)
        buffer = io.BytesIO()
        if first:
            torch.save(rest, buffer)
        torch.distributed.barrier(self._group)  # after partial checkpoints are deleted
        writer = FileSystemWriter(temporary, single_file_per_rank=True, sync_files=True)
        future = dcp.async_save(shards, storage_writer=writer, process_group=self._group)
        assert isinstance(future, Future)

        def finish() -> None:
            try:
                future.result()  # on the first rank: every rank has written
                if first:
                    with open(temporary / REST, "wb") as file:
                        file.write(buffer.getbuffer())
                        file.flush()
                        os.fsync(file.fileno())
                    if path.is_dir():  # from a run that was resumed before it
                        shutil.rmtree(path)
                    temporary.replace(path)
            except (CheckpointException, OSError, RuntimeError) as error:
                if first:
                    shutil.rmtree(temporary, ignore_errors=True)
                raise save_error(path, error) from error

        return finish

    def close(self) -> None:
        """Destroys the process group, whose threads could abort the process at its end."""
        if self._group is not None:
            torch.distributed.destroy_process_group(self._group)
            self._group = None


def delete_partial(folder: Path) -> None:
    """Deletes the partial checkpoints of a killed run."""
    for partial in folder.glob(".*.ckpt.*tmp"):
        if partial.is_dir():
            shutil.rmtree(partial, ignore_errors=True)
        else:
            partial.unlink(missing_ok=True)


def separate(state: State, shards: dict[str, Tensor]) -> State:
    """Returns `state` with (`SHARD`, name) for sharded tensors; `shards` gets these (copies on CPUs), tied ones once."""
    names: dict[int, str] = {}

    def replace(value: object, name: str) -> Any:
        if isinstance(value, DTensor):
            local = value.to_local()
            key = local.data_ptr() if local.numel() else id(value)
            if key not in names:
                names[key] = name
                shards[name] = value.detach().clone() if local.device.type == "cpu" else value.detach()
            return (SHARD, names[key])
        if isinstance(value, Mapping):
            return {key: replace(item, f"{name}.{key}") for key, item in value.items()}
        if isinstance(value, list):
            return [replace(item, f"{name}.{i}") for i, item in enumerate(value)]
        return value

    return replace(state, "state")


def join(rest: object, tensors: Mapping[str, Tensor]) -> Any:
    """Returns the state that `separate` has split into `rest` and `tensors`."""
    if isinstance(rest, tuple) and rest[:1] == (SHARD,):
        return tensors[rest[1]]
    if isinstance(rest, dict):
        return {key: join(value, tensors) for key, value in rest.items()}
    return [join(value, tensors) for value in rest] if isinstance(rest, list) else rest


def read_whole(path: Path) -> State:
    """Returns the checkpoint with whole tensors on the CPU."""
    reader, rest = PlainReader(path), read_rest(path)
    tensors = {}
    for name, entry in reader.read_metadata().state_dict_metadata.items():
        if isinstance(entry, TensorStorageMetadata):
            tensors[name] = torch.empty(entry.size, dtype=entry.properties.dtype)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*torch.distributed is disabled.*")
        dcp.load(tensors, storage_reader=reader, no_dist=True)
    return join(rest, tensors)


def read_shares(path: Path, weights: Mapping[str, Tensor], parameters: list[list[Tensor]]) -> State:
    """Returns the checkpoint with this rank's shards; raises ValueError if the model differs. All ranks call it."""
    rest = read_rest(path)
    tensors: dict[str, Tensor] = {}

    def want(stub: object, like: Tensor) -> None:
        if isinstance(stub, tuple) and stub[:1] == (SHARD,):
            tensors.setdefault(stub[1], torch.empty_like(like.detach()))

    try:
        for name, stub in rest["state_dict"].items():
            want(stub, weights[name])
        for state, params in zip(rest["optimizer_states"], parameters, strict=True):
            for number, entries in state["state"].items():
                for stub in entries.values():
                    want(stub, params[number])
        dcp.load(tensors, storage_reader=PlainReader(path))
    except (CheckpointException, KeyError, IndexError) as error:
        raise ValueError(f"the checkpoint {str(path)!r} does not fit this model: {_reason(error)}") from error
    return join(rest, tensors)


def read_rest(path: Path) -> State:
    """Returns the contents of `rest.pt`, with (`SHARD`, name) for tensors in shards; never runs code."""
    return torch.load(path / REST, map_location="cpu", weights_only=True)


def damage_of_shards(path: Path) -> str | None:
    """Returns the damage of a checkpoint folder, by the checksums in its files; None if it is whole."""
    if damage := bad_checksum(path / REST):
        return f"{REST}: {damage}"
    for part in PlainReader(path).read_metadata().storage_data.values():
        with open(path / part.relative_path, "rb") as file:
            file.seek(part.offset)
            if damage := bad_checksum(io.BytesIO(file.read(part.length))):
                return f"{part.relative_path}: {damage}"
    return None


def bad_checksum(file: Path | io.BytesIO) -> str | None:
    """Returns a message with the first member of an archive that fails its checksum; None if all members pass."""
    with zipfile.ZipFile(file) as archive:
        bad = archive.testzip()
    return f"{bad} fails its checksum" if bad else None


def save_error(path: Path, error: BaseException) -> OSError:
    """Returns the error of a checkpoint that could not be written."""
    return OSError(
        f"cannot save the checkpoint {str(path)!r}: {_reason(error)}. Earlier checkpoints are intact"
    )


def _reason(error: BaseException) -> str:
    """Returns the cause of an error in one line; if several ranks failed, the cause on the first of them."""
    causes = list(error.failures.values()) if isinstance(error, CheckpointException) else []
    cause: BaseException | None = causes[0][0] if causes else error
    while cause is not None and not isinstance(cause, OSError):  # torch closes its file, and fails again
        cause = cause.__cause__ or cause.__context__
    cause = cause or error
    return getattr(cause, "strerror", None) or (str(cause).splitlines() or [repr(cause)])[0]
