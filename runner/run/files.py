"""Reads small files of a run, even if some are damaged, and writes files atomically."""

import contextlib
import errno
import fcntl
import json
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from threading import get_native_id
from typing import IO, Any, TextIO, TypeVar

from tiryns.runner.run.redaction import redact

Json = TypeVar("Json", dict[str, Any], list[Any])

OF_STATUS = {
    "state": str, "step": int, "max_steps": int, "results": dict, "resolved": dict, "identities": list,
    "moved_in": list,
}  # fmt: skip
"""The types of fields of `status.json`; a value of another type is ignored."""

JUDGE = "judge.json"
"""The file in the folder of the runs of `tiryns judge`. It has the overrides that all these runs share."""

SWEEP = "sweep.json"
"""The file in the folder of a sweep. It has the sweep's overrides, and its overrides of Hydra's own settings."""

LADDER = "ladder.json"
"""The file in the folder of a ladder of widths. It has the overrides that its runs share, and the predictions."""

COORDINATES = "coordinates/"
"""Prefix of the names of metrics that measure how far activations have moved."""

OF_SWEEPS = (JUDGE, LADDER, SWEEP)
"""Any of these marks the folder of a sweep."""


def read_text(path: Path) -> str:
    """Returns the text of a file; empty if it is missing or unreadable."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def read_json(path: Path, empty: Json) -> Json:
    """Returns the value in a file; `empty` if the file is missing or unreadable, or its value has another type."""
    try:
        value = json.loads(read_text(path))
    except (ValueError, RecursionError):
        return empty
    return value if isinstance(value, type(empty)) else empty


def read_status(file: Path) -> dict[str, Any]:
    """Returns the fields of a `status.json`, without those of wrong types; empty if none can be read."""
    return {n: v for n, v in read_json(file, {}).items() if isinstance(v, OF_STATUS.get(n, object))}


def read_sweep(folder: Path) -> dict[str, Any]:
    """Returns the content of `sweep.json`; empty if it is missing or unreadable."""
    return read_json(folder / SWEEP, {})


def json_object(path: Path) -> dict[str, Any]:
    """Returns the object in a file of JSON; raises OSError if it is unreadable, ValueError if it holds no object."""
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise ValueError(f"{str(path)!r} is damaged: it is no valid JSON") from None
    if not isinstance(value, dict):
        raise ValueError(f"{str(path)!r} is damaged: expected a JSON object, found {value!r:.40}")
    return value


def newest(outputs: Path, name: str, fits: Callable[[Path, dict[str, Any]], bool]) -> Path | None:
    """Returns the last started folder under `outputs` whose file `name` satisfies `fits`."""
    read = [(file.parent, read_json(file, {})) for file in outputs.glob(f"**/{name}")]
    candidates = [(record.get("started") or "", folder) for folder, record in read if fits(folder, record)]
    return max(candidates)[1] if candidates else None


def meant_run(name: Path, outputs: Path = Path("outputs")) -> str:
    """Returns `. Did you mean ...?` with the newest run or sweep under `outputs` whose path holds `name`; else empty."""
    folders = {file.parent for mark in ("status.json", "sweep.json") for file in outputs.glob(f"**/{mark}")}
    matches = [folder for folder in folders if str(name) in str(folder.relative_to(outputs))]
    # the newest first, and a sweep before its runs
    matches.sort(key=lambda folder: (len(folder.parts), -folder.stat().st_mtime))
    return f". Did you mean {str(matches[0])!r}?" if matches else ""


@contextlib.contextmanager
def naming(path: Path, subject: str = "") -> Iterator[None]:
    """Raises an OSError of the block again with a message that names `subject`, such as `the report `, and the file."""
    try:
        with system_errors(path):
            yield
    except OSError as error:
        in_a_file = isinstance(error, FileExistsError) and not path.parent.is_dir()  # so says mkdir
        reason = os.strerror(errno.ENOTDIR) if in_a_file else error.strerror or error
        raise OSError(f"cannot write {subject}{str(path)!r}: {reason}") from error


@contextlib.contextmanager
def system_errors(path: Path) -> Iterator[None]:
    """Raises OSError if a library in Rust raises a system error in the block as another type of exception."""
    try:
        yield
    except Exception as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        if isinstance(error, OSError) or not number:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error


@contextlib.contextmanager
def replacing(path: Path, subject: str = "") -> Iterator[Path]:
    """Yields a temporary path, which replaces `path` after the block; an OSError of the block names `path`."""
    with naming(path, subject), staging(path, over=True) as temporary:
        yield temporary


@contextlib.contextmanager
def staging(path: Path, over: bool = False) -> Iterator[Path]:
    """Yields a temporary path for a file or folder, and renames it to `path` after the block.

    A file replaces a file, never a folder. A folder replaces a folder that holds files only if `over`.
    If the block fails, `path` stays as it was. Temporary files are removed.
    """
    suffix = f"{get_native_id()}.{os.getpid()}.tmp"  # threads write too
    temporary, before = path.with_name(f".{path.name}.{suffix}"), path.with_name(f".{path.name}.old.{suffix}")
    try:
        yield temporary
        if not (over and path.is_dir() and temporary.is_dir()):
            temporary.replace(path)
            return
        path.rename(before)  # the system replaces no folder that holds files
        try:
            temporary.replace(path)
        except BaseException:
            before.rename(path)
            raise
        shutil.rmtree(before, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        with contextlib.suppress(OSError):
            temporary.unlink()


@contextlib.contextmanager
def replaceable(*files: Path | None) -> Iterator[None]:
    """Records that the block writes files that the user names. FileExistsError if a file exists that no command wrote.

    A file that was changed after a command wrote it counts as written by the user.
    """
    paths = [file for file in files if file]
    try:
        folder = own_cache() / "written"
    except RuntimeError:  # there is no home, so that nothing can be noted
        folder = Path(os.devnull)
    notes = {file: folder / sha256(str(file.absolute()).encode()).hexdigest() for file in paths}
    for file, note in notes.items():
        if (state := _state_of(file)) and state != read_text(note):
            raise FileExistsError(
                f"{str(file)!r} is there, but not as a command of yours wrote it: name another, or remove it first"
            )
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            for file, note in notes.items():
                note.parent.mkdir(parents=True, exist_ok=True)
                note.write_text(_state_of(file))


def _state_of(file: Path) -> str:
    return f"{file.stat().st_size} {file.stat().st_mtime_ns}" if file.is_file() else ""


@contextlib.contextmanager
def writing(path: Path | None) -> Iterator[TextIO]:
    """Yields standard output, or for a path a file that appears when all is written."""
    if path is None:
        yield sys.stdout
        return
    with replaceable(path), replacing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        yield file


_LOCKS: set[IO[str]] = set()
"""Open lock files of this process; forked children close them, or a loader worker would keep the lock of a dead run."""

os.register_at_fork(after_in_child=lambda: [file.close() for file in _LOCKS])


@contextlib.contextmanager
def hold_lock(file: Path, patience: float | None = None, busy: Exception | None = None) -> Iterator[None]:
    """Waits for a lock file, and holds it within the block.

    Raises `busy`, by default BlockingIOError, if another process holds it after `patience` seconds; None waits forever.
    """
    deadline = time.monotonic() + (patience or 0.0)
    with open(file, "w") as handle:
        while not takes_lock(handle, fcntl.LOCK_EX | (0 if patience is None else fcntl.LOCK_NB)):
            if time.monotonic() >= deadline:
                raise busy or BlockingIOError(f"another process holds {str(file)!r}")
            time.sleep(0.2)
        _LOCKS.add(handle)
        try:
            yield
        finally:
            _LOCKS.discard(handle)


def takes_lock(file: IO[str], kind: int = fcntl.LOCK_EX | fcntl.LOCK_NB) -> bool:
    """Locks an open lock file, which the system releases when its holder dies; returns False if another process holds it.

    Raises OSError where the file system has no locks.
    """
    try:
        fcntl.flock(file, kind)
    except BlockingIOError:
        return False
    except OSError as error:
        raise OSError(
            f"cannot lock {file.name!r}: {error.strerror}. Name a folder on a file system with locks: two processes "
            "could write to this one"
        ) from error
    return True


def own_cache(setting: str | None = None) -> Path:
    """Returns the cache folder: the setting, else TIRYNS_CACHE, else ~/.cache/tiryns."""
    return Path(setting or os.environ.get("TIRYNS_CACHE") or "~/.cache/tiryns").expanduser()


def copy_folder(source: Path, target: Path) -> None:
    """Copies the files of a folder, without their modes, which some disks refuse to set.

    Raises OSError if `target` exists, or a file cannot be read, such as a broken link.
    """
    target.mkdir(parents=True)
    for path in source.iterdir():
        (copy_folder if path.is_dir() else shutil.copyfile)(path, target / path.name)


def write_atomically(path: Path, text: str) -> None:
    """Writes a file without secrets; a reader sees the old text or the new one, also after a crash of the machine."""
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write(redact(text))
        file.flush()
        os.fsync(file.fileno())


def named_path(name: str) -> Path:
    """Returns the path in a data set's name: without `@split`, and without `:configuration` if its folder has a card.

    Example:
        >>> named_path("birds@train").name
        'birds'
    """
    path = name if os.path.exists(os.path.expanduser(name)) else name.rpartition("@")[0] or name
    folder = path.partition(":")[0]
    return Path(folder if os.path.exists(os.path.expanduser(f"{folder}/README.md")) else path)


def typed_path(folder: Path) -> Path:
    """Returns the folder as one would type it: relative if it lies below the working directory."""
    whole = folder.resolve()
    return whole.relative_to(Path.cwd()) if whole.is_relative_to(Path.cwd()) else whole


def resume_word(place: object) -> str:
    """Returns the override that resumes a run or sweep as typed in a shell."""
    return shlex.quote(f"resume={place}")
