"""Whole checkpoints: copied, written in the background and renamed; verified before they are loaded."""

import contextlib
import os
import re
import shutil
import threading
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, TypeVar

import torch
from lightning.fabric.plugins import CheckpointIO
from torch import Tensor

from tiryns.runner.checkpoints import sharded
from tiryns.runner.patches.torch.trees import keep_versions, tree_leaves
from tiryns.runner.protocols import State
from tiryns.runner.run.files import staging

Found = TypeVar("Found")

Kind = tuple[torch.Size, tuple[int, ...], torch.dtype, bool]
"""Shape, strides and dtype of a tensor, and whether it is on a GPU."""

TRIES = 20
"""Maximum number of attempts to read a checkpoint while training deletes old ones."""

RESERVED_FROM = 64 * 2**20
"""Minimum bytes of a state whose memory is reserved early: the first use of a page costs more than copying it."""


class AtomicCheckpointIO(CheckpointIO):
    """Reads and writes checkpoints atomically.

    `save_checkpoint` returns once the state is copied; the copy takes as much memory again on the rank that writes. A
    thread writes one checkpoint at a time. `wait`, `check` and the next save raise the error of a failed write.
    """

    def __init__(self) -> None:
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending: list[Future[None]] = []
        self._buffers = Buffers()
        self._shards = sharded.ShardWriter()

    def save_checkpoint(self, checkpoint: State, path: str | Path, storage_options: object = None) -> None:
        """Copies `checkpoint` and begins to write it to `path`; raises OSError where an earlier save has failed."""
        self.wait()
        copy = self._buffers.copy(checkpoint)
        self._pending.append(self._writer.submit(write_checkpoint, copy, Path(path)))

    def save_shards(self, checkpoint: State, path: Path, first: bool) -> None:
        """Copies this rank's shards and begins to write them into the folder `path`; all ranks must call it.

        The `first` rank also writes everything that is not sharded. Raises OSError if an earlier save has failed.
        """
        self.wait()
        self._pending.append(self._writer.submit(self._shards.start(checkpoint, path, first)))

    def then(self, follow: Callable[[], None]) -> None:
        """Calls `follow` in the writing thread once the saves so far are on disk, unless one has failed."""
        before = list(self._pending)

        def run() -> None:
            if not any(future.exception() for future in before):
                follow()

        self._pending.append(self._writer.submit(run))

    def check(self) -> None:
        """Raises OSError if a finished save has failed; does not wait."""
        while self._pending and self._pending[0].done():
            self._pending.pop(0).result()

    def wait(self) -> None:
        """Waits until every save is on disk; raises OSError where one has failed."""
        while self._pending:
            self._pending.pop(0).result()

    def reserve(self, state: object) -> None:
        """Reserves memory for copies of the tensors in `state`, in the background."""
        self._buffers.reserve(leaf for leaf in tree_leaves(state) if isinstance(leaf, Tensor))

    def load_checkpoint(
        self, path: str | Path, map_location: Any = None, weights_only: bool | None = None
    ) -> State:
        """Returns the checkpoint in `path`; ValueError if it is damaged or holds more than plain values and tensors."""
        self.wait()
        if (damage := damage_of(Path(path))) is not None:
            raise ValueError(f"the checkpoint {str(path)!r} is damaged: {damage}")
        if Path(path).is_dir():
            return sharded.read_whole(Path(path))
        try:
            checkpoint = torch.load(path, map_location=map_location or "cpu", weights_only=True)
        except UnpicklingError as error:
            match = re.search(r"GLOBAL ([\w.]+)", str(error))
            raise ValueError(
                f"the checkpoint {str(path)!r} holds {match[1] if match else 'an object'}, and only plain values and "
                "tensors are loaded: keep it out of hyperparameters and states"
            ) from error
        if (
            not isinstance(checkpoint, dict)
            or not isinstance(checkpoint.get("state_dict"), dict)
            or "global_step" not in checkpoint
        ):
            raise ValueError(f"{str(path)!r} is no checkpoint of a run: it has no weights or no step count")
        return checkpoint

    def remove_checkpoint(self, path: str | Path) -> None:
        delete_checkpoint(Path(path))

    def teardown(self) -> None:
        """Waits for the last save if training ends early, and ignores an error of this save."""
        with contextlib.suppress(OSError):
            self.wait()
        self._shards.close()


class Buffers:
    """Memory for a copy of a state, which the next copy uses again."""

    def __init__(self) -> None:
        self._free: dict[Kind, list[Tensor]] = defaultdict(list)
        self._in_use: list[tuple[Kind, Tensor]] = []
        self._lock = threading.Lock()

    def copy(self, state: Found) -> Found:
        """Returns the state with tensors copied to the CPU; tied tensors stay tied. Overwrites the previous copy."""
        with self._lock:
            for kind, buffer in self._in_use:
                self._free[kind].append(buffer)
            self._in_use = []
            copy = self._copy(state, {})
        if torch.cuda.is_available():
            torch.cuda.current_stream().synchronize()
        return copy

    def reserve(self, tensors: Iterable[Tensor]) -> None:
        """Allocates memory for copies of `tensors` in a thread."""
        kinds = [_kind(tensor) for tensor in tensors if _has_buffer(tensor)]
        if sum(shape.numel() * dtype.itemsize for shape, _, dtype, _ in kinds) < RESERVED_FROM:
            return

        def allocate() -> None:
            for kind in kinds:
                buffer = _new_buffer(kind).zero_()
                with self._lock:
                    self._free[kind].append(buffer)

        threading.Thread(target=allocate, name="checkpoint-memory", daemon=True).start()

    def _copy(self, value: Any, copies: dict[object, Tensor]) -> Any:
        if isinstance(value, Tensor):
            key = (value.device, value.data_ptr(), value.shape, value.stride(), value.dtype)
            if key not in copies or not value.numel():
                copies[key] = self._copy_to_buffer(value.detach())
            return copies[key]
        if isinstance(value, dict):
            copy = type(value)() if type(value) is not defaultdict else {}
            for name, item in value.items():  # a Counter's `update` counts
                copy[name] = self._copy(item, copies)
            keep_versions(copy, value)
            return copy
        if type(value) in (list, tuple):
            return type(value)(self._copy(item, copies) for item in value)
        return value

    def _copy_to_buffer(self, tensor: Tensor) -> Tensor:
        if not _has_buffer(tensor):
            return tensor.cpu().clone()
        kind = _kind(tensor)
        buffer = self._free[kind].pop() if self._free[kind] else _new_buffer(kind)
        self._in_use.append((kind, buffer))
        return buffer.copy_(tensor, non_blocking=True)


def write_checkpoint(checkpoint: State, path: Path) -> None:
    """Writes, syncs and renames a temporary file; on failure raises OSError and leaves nothing behind."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        sharded.delete_partial(path.parent)
        with staging(path) as temporary, open(temporary, "wb") as file:
            torch.save(checkpoint, file)
            file.flush()
            os.fsync(file.fileno())
    except (OSError, RuntimeError) as error:
        raise sharded.save_error(path, error) from error


def delete_checkpoint(path: Path) -> None:
    """Deletes the file or folder, if it exists; renames a folder first, so that no part of it stays under its name."""
    if path.is_dir():
        leaving = path.with_name(f".{path.name}.gone")
        path.replace(leaving)
        shutil.rmtree(leaving)
    else:
        path.unlink(missing_ok=True)


def _has_buffer(tensor: Tensor) -> bool:
    """Whether a tensor is plain, with separate memory for each element."""
    dense = type(tensor) is Tensor and tensor.layout is torch.strided
    return dense and not any(s == 0 < n - 1 for s, n in zip(tensor.stride(), tensor.shape, strict=True))


def _kind(tensor: Tensor) -> Kind:
    """Returns the kind of a tensor; a copy with other strides would round differently in later products."""
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.is_cuda


def _new_buffer(kind: Kind) -> Tensor:
    shape, stride, dtype, on_gpu = kind
    return torch.empty_strided(shape, stride, dtype=dtype, pin_memory=on_gpu)


def read_while_training(find: Callable[[], list[Path]], read: Callable[[list[Path]], Found]) -> Found:
    """Returns `read` of the checkpoints that `find` names; tries again if training deletes one meanwhile.

    Raises what `find` and `read` raise for existing checkpoints, or after `TRIES` tries.
    """
    for _ in range(TRIES - 1):
        paths = find()
        try:
            return read(paths)
        except Exception:
            if all(path.exists() for path in paths):
                raise
    return read(find())


def entry_of(path: Path, name: str) -> Any:
    """Returns an entry of a checkpoint, other than a tensor, without reading the tensors; None if it is missing."""
    file = path / sharded.REST if path.is_dir() else path
    try:
        state = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except UnpicklingError:
        state = None
    if not isinstance(state, dict):
        raise ValueError(
            f"{str(path)!r} is no checkpoint of a run, or holds more than plain values and tensors"
        )
    return state.get(name)


def weight_types(path: Path) -> dict[str, torch.dtype]:
    """Returns the type of each floating point weight in a checkpoint, by its name in the module; reads no tensors."""
    entries: Any = sharded.PlainReader(path).read_metadata().state_dict_metadata if path.is_dir() else {}
    state = (entry_of(path, "state_dict") or {}).items()
    tensors = {name: entries[one[1]].properties if isinstance(one, tuple) else one for name, one in state}
    return {name: one.dtype for name, one in tensors.items() if one.dtype.is_floating_point}


def damage_of(path: Path) -> str | None:
    """Returns the damage of a checkpoint, by the checksums in its archives; None if it is whole."""
    try:
        return sharded.damage_of_shards(path) if path.is_dir() else sharded.bad_checksum(path)
    except (zipfile.BadZipFile, OSError, EOFError, UnpicklingError, AttributeError) as error:
        return str(error)
