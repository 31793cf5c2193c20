"""Digests of files and folders, as `sha256:<64 hex digits>`."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

END = 1 << 20
"""Bytes at each end of a large file."""


def file_digest(path: Path) -> str:
    """Returns the digest of a file's bytes; for a link, `link:` and its target. Raises OSError if it cannot be read.

    Example:
        >>> from tempfile import NamedTemporaryFile
        >>> with NamedTemporaryFile() as file:
        ...     file_digest(Path(file.name))[:15]
        'sha256:e3b0c442'
    """
    if path.is_symlink():
        return f"link:{path.readlink()}"
    with open(path, "rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def value_digest(value: object) -> str:
    """Returns the digest of a value of JSON, whatever the order of its keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def ends_digest(path: Path) -> str:
    """Returns the digest of a large file's size and of its first and last mebibyte."""
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        content = file.read(END)
        file.seek(max(size - END, file.tell()))
        return f"ends:{hashlib.sha256(f'{size} '.encode() + content + file.read(END)).hexdigest()}"


def digests_of(files: Mapping[str, Path], digest: Callable[[Path], str] = file_digest) -> dict[str, str]:
    """Returns the digests of files by their names, several at a time."""
    with ThreadPoolExecutor() as pool:
        return dict(zip(files, pool.map(digest, files.values()), strict=True))


def folder_digests(folder: Path, patterns: Iterable[str] = ("*",)) -> dict[str, str]:
    """Returns the digest of each file below a folder, by its path from there; hidden files are left out."""
    paths = {path.relative_to(folder): path for pattern in patterns for path in folder.rglob(pattern)}
    files = {name: path for name, path in sorted(paths.items()) if path.is_file() or path.is_symlink()}
    hidden = {name for name in files if any(part.startswith((".", "__pycache__")) for part in name.parts)}
    return digests_of({name.as_posix(): path for name, path in files.items() if name not in hidden})
