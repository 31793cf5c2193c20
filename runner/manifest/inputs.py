"""What a run began with besides data: pretrained weights, or the checkpoint of another run, with their manifests."""

from pathlib import Path
from typing import Any

from iolaus.runner.manifest.digests import file_digest, folder_digests
from iolaus.runner.run.files import read_json

FILE_NAME = "manifest.json"

SIGNATURE = "manifest.sig"
"""Beside the manifest of an exported model: the signature of that folder."""

ABOUT = (FILE_NAME, SIGNATURE)
"""Files of an exported model that a manifest cannot cover."""

Manifest = dict[str, Any]


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a run folder or of an exported model; empty where there is none or it cannot be read."""
    found: Manifest = read_json(folder / FILE_NAME, {})
    return found


def model_digests(folder: Path) -> dict[str, str]:
    """The digest of each file of a model's folder, but of those about it."""
    return {name: digest for name, digest in folder_digests(folder).items() if name not in ABOUT}


def weights_of(name_or_path: str) -> Manifest:
    """Pretrained weights: path or name, revision, the digest of each file, and their own manifest if they have one."""
    folder, known = Path(name_or_path), {}
    if not folder.is_dir():
        from huggingface_hub import try_to_load_from_cache

        config = try_to_load_from_cache(name_or_path, "config.json")
        if not isinstance(config, str):
            return {"name": name_or_path}
        folder = Path(config).parent
        known = {"name": name_or_path, "revision": folder.name}
    found = {**known, "path": str(folder.resolve()), "files": _contents(folder)}
    return {**found, "manifest": manifest} if (manifest := read_manifest(folder)) else found


def checkpoint_of(path: Path) -> Manifest:
    """The checkpoint of another run that a branch starts from, with that run's manifest."""
    path = path.resolve()
    files = folder_digests(path) if path.is_dir() else {".": file_digest(path)}
    manifest = read_manifest(path.parents[1])
    return {"path": str(path), "files": files, **({"manifest": manifest} if manifest else {})}


def _contents(folder: Path) -> dict[str, str]:
    """Digests of what the names in a folder lead to: the cache of the hub is made of links."""
    digests = model_digests(folder)
    return {
        name: file_digest((folder / name).resolve()) if digest.startswith("link:") else digest
        for name, digest in digests.items()
    }
