"""Writes token stores (`reader` has the format) and other entries of a cache: all or nothing, one process at a time."""

import errno
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.data.store.reader import FORMAT_VERSION, TokenStore, content_fingerprint
from tiryns.runner.run import files

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NOT_ALLOWED = {
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG,
}  # fmt: skip


def key_of(inputs: Mapping[str, object]) -> str:
    """Returns the name of a cache entry, a hash of the `inputs` (plain values) it is made from."""
    text = json.dumps(inputs, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def lock_of(path: Path, wait: bool = True) -> AbstractContextManager[None]:
    """Returns a lock of `path` across processes. Without `wait`, it raises BlockingIOError if another process has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return files.hold_lock(path.parent / f".{path.name}.lock", None if wait else 0.0)


@contextmanager
def write_errors(folder: Path) -> Iterator[None]:
    """Raises OSError with advice for a full disk or a forbidden folder."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        if error.errno in _NO_ROOM:
            raise OSError(
                f"cannot write {folder}: {reason}. Nothing was kept. Free some space, or set data.cache_dir to a folder "
                "on another disk"
            ) from error
        if error.errno in _NOT_ALLOWED:
            raise type(error)(
                f"cannot write {folder}: {reason}: {error.filename}. Set data.cache_dir to a folder that can be written"
            ) from error
        raise


def write_json(path: Path, value: Mapping[str, object]) -> None:
    """Writes `value` atomically."""
    with entering(path) as partial:
        partial.write_text(json.dumps(value, indent=1, ensure_ascii=False), encoding="utf-8")


@contextmanager
def entering(path: Path) -> Iterator[Path]:
    """Yields a temporary path for a file or folder, which is synced to disk and renamed to `path` after the block.

    If the block fails, the temporary folder is removed. One that a killed process has left is removed before the block.
    """
    partial = path.with_name(f".{path.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        yield partial
        for file in (*partial.glob("*"), partial):
            sync(file)
        os.replace(partial, path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def sync(path: Path) -> None:
    """Flushes a file, or the names in a folder, to disk, so that a crash of the machine cannot lose them."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


SECONDS_BETWEEN_MARKS = 15.0
"""Seconds of work that a killed writer can lose."""

_MARKED = ("num_tokens", "num_sequences", "num_bytes", "max_token_id", "position")


class Batch(NamedTuple):
    """Sequences to append."""

    tokens: NDArray[np.integer]  # [N], end to end
    lengths: NDArray[np.int32]  # [D]
    position: int  # in the input, after these sequences
    num_bytes: int | None = None  # of their text, if known


class StoreWriter:
    """Appends sequences to a store that appears under its name when `finish` is called.

    `attributes` (plain values) are saved in `meta.json` and are part of the fingerprint. The caller appends the
    input from `position` on: the last mark of a killed writer with the same attributes, else 0.
    """

    def __init__(self, folder: Path, vocab_size: int, attributes: Mapping[str, object]) -> None:
        self.folder, self.attributes = Path(folder), attributes
        self.partial = self.folder.parent / f".{self.folder.name}.partial"
        self.dtype = smallest_dtype(vocab_size)
        self.num_tokens, self.num_sequences, self.max_token_id, self.position = 0, 0, -1, 0
        self.num_bytes: int | None = 0
        if not self._resume():
            shutil.rmtree(self.partial, ignore_errors=True)
            self.partial.mkdir(parents=True)
        try:
            self._tokens = open(self.partial / "tokens.bin", "ab")  # noqa: SIM115
            self._offsets = open(self.partial / "offsets.bin", "ab")  # noqa: SIM115
        except OSError:
            shutil.rmtree(self.partial, ignore_errors=True)
            raise
        if not self.num_sequences:
            self._offsets.write(np.zeros(1, np.int64).data)
        self._mark_time = time.monotonic()

    def append(self, batch: Batch) -> None:
        """Appends sequences."""
        if len(batch.lengths):
            self._tokens.write(np.ascontiguousarray(batch.tokens, self.dtype).data)
            ends = self.num_tokens + np.cumsum(batch.lengths, dtype=np.int64)
            self._offsets.write(ends.data)
            self.num_tokens, self.num_sequences = int(ends[-1]), self.num_sequences + len(batch.lengths)
        if len(batch.tokens):
            self.max_token_id = max(self.max_token_id, int(batch.tokens.max()))
        if self.num_bytes is not None:
            self.num_bytes = None if batch.num_bytes is None else self.num_bytes + batch.num_bytes
        self.position = batch.position
        if time.monotonic() - self._mark_time > SECONDS_BETWEEN_MARKS:
            self.mark()

    def mark(self) -> None:
        """Saves what was appended so far, so that a killed writer can be continued."""
        self._sync()
        mark = {name: getattr(self, name) for name in (*_MARKED, "attributes")}
        write_json(self.partial / "mark.json", {**mark, "dtype": self.dtype.name})
        self._mark_time = time.monotonic()

    def finish(self) -> None:
        """Completes the store and moves it to its name; raises ValueError if nothing was appended."""
        if not self.num_sequences:
            raise ValueError(f"nothing to write into {self.folder}: the input gave no sequence")
        self._sync()
        self.close()
        names = ("num_sequences", "num_tokens", "num_bytes", "max_token_id", "attributes")
        meta = {"format_version": FORMAT_VERSION, "dtype": self.dtype.name}
        meta |= {name: getattr(self, name) for name in names}
        meta["fingerprint"] = content_fingerprint(self.partial, self.dtype, self.attributes)
        write_json(self.partial / "meta.json", meta)
        (self.partial / "mark.json").unlink(missing_ok=True)
        os.rename(self.partial, self.folder)
        sync(self.folder.parent)

    def close(self) -> None:
        """Closes the files, and ignores errors such as a full disk."""
        for file in (self._tokens, self._offsets):
            with suppress(OSError):  # a full disk, which the write before has reported
                file.close()

    def discard(self) -> None:
        """Removes what was written."""
        self.close()
        shutil.rmtree(self.partial, ignore_errors=True)

    def _sync(self) -> None:
        for file in (self._tokens, self._offsets):
            file.flush()
            os.fsync(file.fileno())

    def _resume(self) -> bool:
        try:
            mark = json.loads((self.partial / "mark.json").read_bytes())
            if mark["attributes"] != self.attributes or mark["dtype"] != self.dtype.name:
                return False
            tokens, offsets = self.partial / "tokens.bin", self.partial / "offsets.bin"
            size_of_tokens = mark["num_tokens"] * self.dtype.itemsize
            for path, size in ((tokens, size_of_tokens), (offsets, (mark["num_sequences"] + 1) * 8)):
                if path.stat().st_size < size:
                    return False
                os.truncate(path, size)
        except (OSError, ValueError, KeyError):
            return False
        for name in _MARKED:
            setattr(self, name, mark[name])
        return True


def write_store(
    folder: Path, vocab_size: int, attributes: Mapping[str, object], batches: Callable[[int], Iterator[Batch]]
) -> TokenStore:
    """Returns the store in a folder. If there is none, writes it; `batches(position)` is the input from a position on.

    One process writes and others wait for it. An error leaves nothing behind; a killed writer is continued.

    Raises:
        OSError: the folder cannot be written; the message names it.
    """
    with write_errors(folder), lock_of(folder):
        if folder.exists():
            return TokenStore(folder)
        writer = StoreWriter(folder, vocab_size, attributes)
        try:
            for batch in batches(writer.position):
                writer.append(batch)
            writer.finish()
        except Exception:
            writer.discard()
            raise
        finally:
            writer.close()
        return TokenStore(folder)


def smallest_dtype(vocab_size: int) -> np.dtype[np.integer]:
    """Returns the smallest unsigned integer that holds ids below `vocab_size`."""
    return np.min_scalar_type(max(vocab_size - 1, 0))
