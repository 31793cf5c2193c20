"""A cache on disk: one process makes an entry, others wait, and none sees it incomplete."""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from tiryns.runner.run import files

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NOT_ALLOWED = {
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG,
}  # fmt: skip


def key_of(inputs: dict[str, Any]) -> str:
    """The name of a cache entry, a hash of the `inputs` (plain values) it is made from."""
    text = json.dumps(inputs, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def cache_folder(named: str | None = None) -> Path:
    """The folder of what later runs use again: the one that a setting names, else TIRYNS_CACHE, else ~/.cache/tiryns."""
    return Path(named or os.environ.get("TIRYNS_CACHE") or "~/.cache/tiryns").expanduser()


def locked(path: Path, wait: bool = True) -> AbstractContextManager[None]:
    """A lock of `path` over processes; without `wait` it raises BlockingIOError where another process holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return files.locked(path.parent / f".{path.name}.lock", wait)


@contextmanager
def write_errors(folder: Path, bytes_needed: Callable[[], int] | None) -> Iterator[None]:
    """Raises OSError with advice for a full disk or a forbidden folder."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        if error.errno in _NO_ROOM:
            existing = next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
            free = _megabytes(shutil.disk_usage(existing).free)
            needed = f"about {_megabytes(bytes_needed())} needed, " if bytes_needed else ""
            raise OSError(
                f"cannot write {folder}: {reason} ({needed}{free} free there). Nothing was kept. Free some space, or set "
                "data.cache_dir to a folder on another disk"
            ) from error
        if error.errno in _NOT_ALLOWED:
            raise type(error)(
                f"cannot write {folder}: {reason}: {error.filename}. Set data.cache_dir to a folder that can be written"
            ) from error
        raise


def _megabytes(size: int) -> str:
    return f"{max(size / 1e6, 0.1):,.1f} MB"


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Writes `value` atomically."""
    with entering(path) as partial:
        partial.write_text(json.dumps(value, indent=1, ensure_ascii=False), encoding="utf-8")


@contextmanager
def entering(path: Path) -> Iterator[Path]:
    """Gives a file to write, which is on disk and has the name `path` behind the block, whatever ends the machine."""
    partial = path.with_name(f".{path.name}.partial")
    yield partial
    sync(partial)
    os.replace(partial, path)


def sync(path: Path) -> None:
    """Flushes a file, or the names in a folder, to disk, so that a crash of the machine cannot lose them."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
