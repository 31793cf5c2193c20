"""The code that runs: the installed program, the git state of its checkout, and modules of the user's own."""

import os
import sys
import sysconfig
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from tiryns.runner.manifest.digests import digests_of, file_digest, folder_digests, value_digest
from tiryns.runner.manifest.inputs import Manifest
from tiryns.runner.run.environment import checkout, output_of

PARTS = ("conf", "runner", "tiryns", "hydra_plugins")
"""Folders of a checkout that hold code."""

SUFFIXES = ("*.py", "*.yaml", "*.js", "*.css")
"""Files of the packages that decide what a run does and shows."""

LARGEST_PATCH = 1 << 20
"""Largest patch that is kept, in bytes."""


def code() -> Manifest:
    """Returns digests of the program and of the user's modules, and commit, git tree and dirty flag of the program."""
    files, modules, state = program_files(), own_modules(), dict(_git_state())
    state.pop("patch", None)
    return {"digest": value_digest(files), "files": files, "own": modules, **state}


@cache
def program_files() -> dict[str, str]:
    """Returns the digest of each file of `tiryns`, `conf`, `runner` and `hydra_plugins` as they are imported here."""
    package = _place_of("tiryns").parent
    digests = digests_of({f"tiryns/{path.name}": path for path in package.glob("*.py")})
    for part in ("conf", "runner"):
        folder = (package / part).resolve()
        digests |= {f"{part}/{name}": digest for name, digest in folder_digests(folder, SUFFIXES).items()}
    return digests | {"hydra_plugins/tiryns.py": file_digest(_place_of("hydra_plugins.tiryns"))}


def _place_of(module: str) -> Path:
    """Returns the file of a module without importing the module."""
    spec = find_spec(module)
    return Path(str(spec and spec.origin))


def own_modules() -> dict[str, str]:
    """Returns the digest of each imported file that belongs neither to the program, an installed package, nor Python."""
    files = {str(getattr(module, "__dict__", {}).get("__file__")) for module in [*sys.modules.values()]}
    paths = map(Path, sorted(filter(None, map(_own_path, files))))
    states = {path: path.stat() for path in paths if path.is_file() and "hydra_plugins" not in path.parts}
    return {str(path): _digest(path, state.st_mtime_ns, state.st_size) for path, state in states.items()}


@cache
def _digest(path: Path, *state: int) -> str:
    """Returns the digest of a file; cached by its `state`, as the jobs of a sweep run the same modules."""
    return file_digest(path)


@cache  # the jobs of a sweep import nothing new
def _own_path(file: str) -> str:
    """Returns the real path of a module's file, or "" if the file is installed; Python 3.9 made such paths absolute."""
    path = file if file.startswith(_prefixes()) else os.path.realpath(file)
    return path if path.endswith(".py") and not path.startswith(_prefixes()) else ""


@cache
def _prefixes() -> tuple[str, ...]:
    """Returns how the paths of the program's, the packages' and Python's files begin."""
    folders = [_place_of("tiryns").parent / part for part in (".", "conf", "runner")]
    folders += map(Path, sysconfig.get_paths().values())
    return tuple(f"{place}{os.sep}" for folder in folders for place in (folder, folder.resolve()))


def patch() -> str | None:
    """Returns the uncommitted changes of the program's checkout, new files included; None without any, or if large."""
    text = _git_state().get("patch")
    return text if text and len(text.encode()) <= LARGEST_PATCH else None


@cache
def _git_state() -> Manifest:
    """Returns commit, tree with uncommitted changes, and their difference, by a temporary index and object folder."""
    if (here := checkout()) is None:
        return {}
    with TemporaryDirectory() as scratch:
        git = ("git", "-C", str(here))
        objects = output_of(*git, "rev-parse", "--path-format=absolute", "--git-path", "objects")
        (Path(scratch) / "objects").mkdir()
        beside = {
            "GIT_INDEX_FILE": f"{scratch}/index",
            "GIT_OBJECT_DIRECTORY": f"{scratch}/objects",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": f"{objects}{os.pathsep}",
        }
        output_of(*git, "read-tree", "HEAD", **beside)
        output_of(*git, "add", "--all", "--", *PARTS, **beside)
        file = Path(scratch) / "patch"
        output_of(*git, "diff", "--cached", "--binary", f"--output={file}", "HEAD", "--", *PARTS, **beside)
        text = file.read_text(errors="replace") if file.exists() else ""
        tree = output_of(*git, "write-tree", **beside)
    return {"commit": output_of(*git, "rev-parse", "HEAD"), "tree": tree, "dirty": bool(text), "patch": text}
