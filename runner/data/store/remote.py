"""Folders on this machine or elsewhere (`s3://`, `hf://`, `memory://`, ...), through fsspec."""

import posixpath
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fsspec.core import url_to_fs

from tiryns.runner.run.errors import reason_of


def is_local(place: str) -> bool:
    """Whether a path or URL names files of this machine."""
    return "://" not in place or place.startswith("file://")


@contextmanager
def reaching(place: str) -> Iterator[None]:
    """Adds the name of a remote place to errors: a protocol's library may raise any error, even without a message."""
    try:
        yield
    except (FileNotFoundError, ImportError):
        raise
    except Exception as error:
        if is_local(place):
            raise
        kind = type(error) if isinstance(error, ValueError) else OSError
        raise kind(f"cannot read or write {place}: {reason_of(error)}") from error


class Folder:
    """A folder by path or URL; raises ValueError for an unknown protocol, ImportError if its package is missing."""

    def __init__(self, place: str) -> None:
        self.place = place.rstrip("/")
        self.local = Path(place.removeprefix("file://")).expanduser() if is_local(place) else None
        with reaching(self.place):
            self._system, root = url_to_fs(str(self.local.absolute()) if self.local else self.place)
        self._root = root.rstrip("/")

    def __str__(self) -> str:
        return self.place if self.local is None else str(self.local)

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return Folder, (self.place,)

    def at(self, name: str) -> str:
        """Returns the path or URL of a file or subfolder `name`."""
        return f"{self.local.absolute() if self.local else self}/{name}"

    def exists(self, name: str) -> bool:
        """Whether there is a file or folder of this name."""
        return bool(self._ask("exists", self._at(name)))

    def is_empty(self) -> bool:
        """Whether the folder is empty or missing."""
        return not (self._ask("exists", self._root) and self._ask("ls", self._root, detail=False))

    def read(self, name: str) -> bytes:
        """Returns the content of a small file; raises FileNotFoundError if it is not there."""
        content: bytes = self._ask("cat_file", self._at(name))
        return content

    def write(self, name: str, content: bytes) -> None:
        """Writes a small file, whole or not at all."""
        path = self._at(name)
        self._ask("makedirs", posixpath.dirname(path), exist_ok=True)
        if self.local:
            partial = Path(f"{path}.partial")
            partial.write_bytes(content)
            partial.replace(path)
        else:
            self._ask("pipe_file", path, content)

    def take(self, files: Path, name: str) -> None:
        """Moves the local folder `files` to the subfolder `name`, and replaces an existing subfolder."""
        path = self._at(name)
        if self._ask("exists", path):
            self._ask("rm", path, recursive=True)
        self._ask("makedirs", posixpath.dirname(path), exist_ok=True)
        if self.local:
            shutil.move(files, path)
            return
        self._ask("put", f"{files}/", f"{path}/", recursive=True)
        shutil.rmtree(files)

    def copy_to(self, name: str, files: Path) -> None:
        """Copies the files of the subfolder `name` to the local folder `files`."""
        self._ask("get", f"{self._at(name)}/", f"{files}/", recursive=True)

    def _ask(self, operation: str, *arguments: object, **options: object) -> Any:
        with reaching(self.place):
            return getattr(self._system, operation)(*arguments, **options)

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"
