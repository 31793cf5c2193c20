"""What a run begins with: files of data, pretrained weights, or another run's checkpoint, with their manifests."""

import glob
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tiryns.conf.values import Settings
from tiryns.runner.manifest.digests import digests_of, ends_digest, file_digest, folder_digests
from tiryns.runner.run.files import named_path, read_json

FILE_NAME = "manifest.json"

SIGNATURE = "manifest.sig"
"""File next to the manifest of an exported model: the signature of its folder."""

ABOUT = (FILE_NAME, SIGNATURE)
"""Files of an exported model that a manifest cannot cover."""

DATA = ("source", "train", "validation", "test", "path", "images")
"""Settings of data that may name local files."""

NAMING = (*DATA, "mixture", "name_or_path", "tiled_from", "teacher")
"""Settings of data, model and objective that a manifest looks at."""

WHOLE = 1 << 30
"""Largest data, in bytes, whose files are digested whole; for larger data, only sizes and ends of files are digested."""

Manifest = dict[str, Any]
"""A manifest, or a part of one."""


def read_manifest(folder: Path) -> Manifest:
    """Returns the manifest of a run folder or of an exported model; empty if it is missing or damaged."""
    manifest = read_json(folder / FILE_NAME, {})
    parts = ("config", "code", "packages", "machine", "resolved", "inputs", "outputs")
    return manifest if all(isinstance(manifest.get(name, {}), dict) for name in parts) else {}


def model_digests(folder: Path) -> dict[str, str]:
    """Returns the digest of each file of a model's folder, except its manifest and signature."""
    return {name: digest for name, digest in folder_digests(folder).items() if name not in ABOUT}


def data_files(settings: Settings) -> dict[str, dict[str, str]]:
    """Returns the digest of each local file that settings of data name: by setting, then by relative path."""
    groups = {name: _by_name([*_files_of(value)]) for name, value in data_places(settings)}
    size = sum(path.stat().st_size for files in groups.values() for path in files.values())
    digest = file_digest if size <= WHOLE else ends_digest
    return {name: digests_of(files, digest) for name, files in groups.items() if files}


def data_places(settings: Settings) -> Iterator[tuple[str, Any]]:
    """Yields settings of data that may name local files, such as `mixture.books.source`, each with its value."""
    parts = {"": settings, **{f"mixture.{n}.": one for n, one in (settings.get("mixture") or {}).items()}}
    for prefix, part in parts.items():
        for name in filter(part.get, DATA):
            yield prefix + name, part[name]


def _by_name(files: list[tuple[str, Path]]) -> dict[str, Path]:
    """Returns files by their names; where two have one name, by their paths from the folder that holds all of them."""
    if len(index := dict(files)) == len(files):
        return index
    paths = list(dict.fromkeys(Path(os.path.abspath(path)) for _, path in files))
    base = os.path.commonpath(paths)
    return index if len(paths) == len(index) else {path.relative_to(base).as_posix(): path for path in paths}


def _files_of(value: object) -> Iterator[tuple[str, Path]]:
    """Yields the files that a value names, which may be a file, folder, pattern, or several in a list or mapping."""
    if isinstance(value, Mapping):
        value = [inner for name, inner in value.items() if name != "_target_"]
    if isinstance(value, list):
        for inner in value:
            yield from _files_of(inner)
    elif isinstance(value, str) and (text := value.removeprefix("store:")):
        place = named_path(text).expanduser()
        paths = [place] if place.exists() else [Path(one) for one in glob.glob(str(place), recursive=True)]
        for path in sorted(paths):
            inside = sorted(path.rglob("*")) if path.is_dir() else [path]
            base = path if path.is_dir() else path.parent
            yield from ((file.relative_to(base).as_posix(), file) for file in inside if file.is_file())


def weights_of(name_or_path: str) -> Manifest:
    """Returns path or name, revision, file digests and, if there is one, the manifest of pretrained weights."""
    folder, origin = Path(name_or_path), {}
    if not folder.is_dir():
        from huggingface_hub import try_to_load_from_cache

        config = try_to_load_from_cache(name_or_path, "config.json")
        if not isinstance(config, str):
            return {"name": name_or_path}
        folder = Path(config).parent
        origin = {"name": name_or_path, "revision": folder.name}
    files = {
        name: file_digest((folder / name).resolve()) if digest.startswith("link:") else digest
        for name, digest in model_digests(folder).items()
    }  # of what the names lead to: the cache of the hub is made of links
    facts = {**origin, "path": str(folder.resolve()), "files": files}
    return {**facts, "manifest": manifest} if (manifest := read_manifest(folder)) else facts


def checkpoint_of(path: Path) -> Manifest:
    """Returns the checkpoint of another run that a branch starts from, with that run's manifest."""
    path = path.resolve()
    files = folder_digests(path) if path.is_dir() else {".": file_digest(path)}
    manifest = read_manifest(path.parents[1])
    return {"path": str(path), "files": files, **({"manifest": manifest} if manifest else {})}
