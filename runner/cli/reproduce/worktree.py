"""The recorded commit of the program as a worktree of its repository, in which the same command is run."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from tiryns.runner.manifest.inputs import Manifest
from tiryns.runner.manifest.record import PATCH
from tiryns.runner.run.command.json_output import print_json, wants_json
from tiryns.runner.run.environment import checkout
from tiryns.runner.run.files import own_cache

COMMAND = "from tiryns.runner.cli.commands import main; main()"


def run_recorded_code(manifest: Manifest, folder: Path | None, words: Sequence[str]) -> int:
    """Runs `tiryns WORDS` by the code of a recorded run and the patch beside its manifest; returns its exit status."""
    place = worktree_of(manifest["code"], folder)
    if not (place / "runner" / "cli" / "reproduce").is_dir():
        raise ValueError(f"the recorded commit, in {str(place)!r}, is older than this command: train by hand")
    print(f"the recorded code stays in {place}; `git worktree remove {place}` removes it", file=sys.stderr)
    paths = os.pathsep.join([str(place), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-P", "-c", COMMAND, *words]
    out = subprocess.PIPE if wants_json() else None
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, stdout=out, check=False)
    if done.stdout:
        print_json(json.loads(done.stdout))
    return done.returncode


def worktree_of(code: Manifest, folder: Path | None) -> Path:
    """The recorded code in the cache: a worktree of the commit, with the patch; made where it is not there yet."""
    commit, here = code.get("commit"), checkout()
    if not commit:
        raise ValueError("--code: the run was trained by an installed program, which has no commit")
    if not re.fullmatch("[0-9a-f]{40}", str(commit)):
        raise ValueError(f"--code: code.commit={commit!r} in the manifest: expected 40 hexadecimal digits")
    if here is None:
        raise ValueError("--code needs the repository: give this command in a checkout of the program")
    patch = folder / PATCH if code.get("dirty") and folder else None
    if code.get("dirty") and not (patch and patch.is_file()):
        raise ValueError(f"--code: the run had uncommitted changes, and {PATCH} is not beside the manifest")
    text = patch.read_bytes() if patch else b""
    name = f"{commit[:12]}{'-' + sha256(text).hexdigest()[:8] if text else ''}"
    place = own_cache().resolve() / "code" / name
    if not place.is_dir():
        if patch:
            _ask(patch)
        _make(here, str(commit), text, place)
    return place


def _ask(patch: Path) -> None:
    """Raises ValueError unless the user lets the code of a patch run here."""
    print(
        f"{patch} changes the program that runs here. Apply it? [y/N] ", end="", file=sys.stderr, flush=True
    )
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ValueError(f"--code: {str(patch)!r} was not applied; read it, and answer y to run it")


def _make(here: Path, commit: str, patch: bytes, place: Path) -> None:
    if _git(here, "cat-file", "-e", f"{commit}^{{commit}}"):
        _git(here, "fetch", "--quiet", "origin", commit)
    _git(here, "worktree", "prune")
    if error := _git(here, "worktree", "add", "--quiet", "--detach", str(place), commit):
        raise ValueError(f"--code: the commit {commit[:12]} cannot be had from {str(here)!r}: {error}")
    if patch and (error := _git(place, "apply", "--binary", "-", content=patch)):
        _git(here, "worktree", "remove", "--force", str(place))
        raise ValueError(f"--code: {PATCH} does not fit the commit {commit[:12]}: {error}")


def _git(folder: Path, *words: str, content: bytes = b"") -> str:
    """The message of a git command that fails; empty where it does not."""
    done = subprocess.run(["git", "-C", str(folder), *words], input=content, capture_output=True, check=False)
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return (lines or ["git failed"])[-1] if done.returncode else ""
