"""Folders on this machine or elsewhere (`s3://`, `hf://`, `memory://`, ...), through fsspec."""

import posixpath
import shutil
from pathlib import Path
from typing import Any


def is_local(place: str) -> bool:
    """Whether a path or URL names files of this machine."""
    return "://" not in place or place.startswith("file://")


class Folder:
    """A folder by its path or URL; raises ValueError for an unknown protocol, ImportError for one without its package."""

    def __init__(self, place: str) -> None:
        self.place = place.rstrip("/")
        self.local = Path(place.removeprefix("file://")).expanduser() if is_local(place) else None
        if self.local is None:
            import fsspec

            self._system, self._path = fsspec.core.url_to_fs(self.place)

    def __str__(self) -> str:
        return self.place if self.local is None else str(self.local)

    def __reduce__(self) -> tuple[Any, ...]:
        return Folder, (self.place,)

    def at(self, name: str) -> str:
        """The path or URL of a file or folder in it."""
        return f"{self}/{name}"

    def exists(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return (self.local / name).exists() if self.local else bool(self._system.exists(self._at(name)))

    def read(self, name: str) -> bytes:
        """The content of a small file; raises FileNotFoundError if it is not there."""
        if self.local:
            return (self.local / name).read_bytes()
        content: bytes = self._system.cat_file(self._at(name))
        return content

    def write(self, name: str, content: bytes) -> None:
        """Writes a small file, whole or not at all."""
        if self.local:
            path = self.local / name
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(f".{path.name}.partial")
            partial.write_bytes(content)
            partial.replace(path)
        else:
            self._system.makedirs(posixpath.dirname(self._at(name)), exist_ok=True)
            self._system.pipe_file(self._at(name), content)

    def take(self, files: Path, name: str) -> None:
        """Replaces the folder `name` in it by the local folder `files`, which is moved, or copied and removed."""
        if self.local:
            shutil.rmtree(self.local / name, ignore_errors=True)
            (self.local / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(files, self.local / name)
            return
        if self._system.exists(self._at(name)):
            self._system.rm(self._at(name), recursive=True)
        for path in sorted(files.rglob("*")):
            if path.is_file():
                target = self._at(f"{name}/{path.relative_to(files).as_posix()}")
                self._system.makedirs(posixpath.dirname(target), exist_ok=True)
                self._system.put_file(str(path), target)
        shutil.rmtree(files)

    def copy_to(self, name: str, files: Path) -> None:
        """Copies the files of its folder `name` to the local folder `files`."""
        root = self._at(name)
        for path in self._system.find(root):
            copy = files / posixpath.relpath(path, root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            self._system.get_file(path, str(copy))

    def _at(self, name: str) -> str:
        return f"{self._path.rstrip('/')}/{name}"
