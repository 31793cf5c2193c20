"""Small files of a run: read where they can be, and written atomically."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import get_native_id
from typing import Any

from iolaus.runner.run.redaction import redacted


def read_json(path: Path, empty: Any) -> Any:
    """The value in a file; `empty` where there is no file, it cannot be read, or its value has another type."""
    try:
        value = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError):
        return empty
    return value if isinstance(value, type(empty)) else empty


def newest(outputs: Path, name: str, fits: Callable[[Path, dict[str, Any]], bool]) -> Path | None:
    """The folder under `outputs` that was started last, of those for whose file `name` `fits` holds."""
    read = [(file.parent, read_json(file, {})) for file in outputs.glob(f"**/{name}")]
    found = [(noted.get("started") or "", folder) for folder, noted in read if fits(folder, noted)]
    return max(found)[1] if found else None


@contextlib.contextmanager
def naming(path: Path, what: str = "") -> Iterator[None]:
    """Raises an OSError of the block with the name of the file, after `what`, such as `the report `."""
    try:
        yield
    except OSError as error:
        raise OSError(f"cannot write {what}{str(path)!r}: {error.strerror or error}") from error


@contextlib.contextmanager
def replacing(path: Path, what: str = "") -> Iterator[Path]:
    """Gives a temporary path and renames it after the block; OSError names `path`, and no temporary file is left."""
    temporary = path.with_name(f".{path.name}.{get_native_id()}.{os.getpid()}.tmp")  # threads write too
    with naming(path, what):
        try:
            yield temporary
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def write_atomically(path: Path, text: str) -> None:
    """Writes a file without secrets; a reader sees the old text or the new one."""
    with replacing(path) as temporary:
        temporary.write_text(redacted(text))
