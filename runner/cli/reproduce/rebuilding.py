"""The command that trains a recorded run again: its config, with every `auto` resolved, and its threads.

With `--code` it runs in a worktree of the program's repository at the recorded commit.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from omegaconf import DictConfig, OmegaConf

from tiryns.runner.cli.compose import overrides_of
from tiryns.runner.config.permissions import check_permissions
from tiryns.runner.config.run_config import with_data
from tiryns.runner.config.skipped import NOTED, merge_skips
from tiryns.runner.manifest.inputs import FILE_NAME, Manifest
from tiryns.runner.manifest.record import PATCH
from tiryns.runner.manifest.steps import Step, read_steps, steps_of
from tiryns.runner.run.command.json_output import print_json, wants_json
from tiryns.runner.run.command.lifetime import PROGRAM
from tiryns.runner.run.environment import KERNEL_VARIABLES, checkout
from tiryns.runner.run.files import own_cache
from tiryns.runner.run.model_folder import own_words
from tiryns.runner.run.redaction import HIDDEN
from tiryns.runner.run.yaml_files import flatten

AUTO = ("auto", -1, "-1")


class Recorded(NamedTuple):
    """A run as it was recorded."""

    manifest: Manifest
    steps: list[Step]
    folder: Path | None
    """The folder of the run or of its exported model; None if only the manifest exists."""


def read_run(path: Path) -> Recorded:
    """Reads the run of a folder, an exported model or a `manifest.json`; raises ValueError if it cannot be rebuilt."""
    file = path / FILE_NAME if path.is_dir() else path
    if not file.is_file():
        reason = (
            f"it has no {FILE_NAME}: callback.manifest was off" if path.is_dir() else "there is no such file"
        )
        raise ValueError(f"{str(path)!r} cannot be rebuilt: {reason}")
    try:
        manifest = json.loads(file.read_text())
        steps = steps_of(manifest.get("steps") or [])
        start = int([*(manifest.get("sessions") or []), {}][0].get("step", 0))
        names = ("code", "packages", "machine", "resolved", "inputs")
        parts = [manifest["config"]["resolved"], manifest.get("outputs", {}), *map(manifest.get, names)]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{str(file)!r} is damaged, or no manifest of a run") from None
    if not all(isinstance(part, dict) for part in parts):
        raise ValueError(f"{str(file)!r} is damaged: a part of it is missing")
    # a branch has the lines of its parent run before its own
    steps = [step for step in (path.is_dir() and read_steps(path)) or steps if step.step > start]
    if not steps:
        raise ValueError(f"{str(path)!r} has no digests of any step yet, so nothing could be compared")
    return Recorded(manifest, steps, path if path.is_dir() else None)


def words_of(
    manifest: Manifest, overrides: Sequence[str], stop_after: int | None, folder: Path | None = None
) -> list[str]:
    """Returns the overrides of `tiryns train` that train a recorded run again, with `overrides` last.

    Raises ValueError in three cases: a setting lets code of others run, and the user has not given it; a secret was not
    recorded, and is not given; the checkpoint that the run branched from is missing.
    """
    config = OmegaConf.create(manifest["config"]["resolved"])
    config.pop("resolved", None)
    names = {word.partition("=")[0].lstrip("+~") for word in overrides}
    for name, value in flatten(OmegaConf.to_container(config, resolve=False)):
        if HIDDEN in str(value) and name not in names:
            raise ValueError(f"{name} held a secret, which is not written down: give it again, as {name}=...")
    check_permissions(config, [*(own_words(folder) if folder else ()), *overrides])
    config.update({"mode": "train", "outputs": "outputs", "resume": None})
    if point := manifest["inputs"].get("checkpoint"):
        if "resume" not in names and not Path(point["path"]).exists():
            gone = f"the run is a branch of the checkpoint {point['path']!r}, which is not here"
            raise ValueError(f"{gone}: rebuild its run first, and name its checkpoint with resume=")
        config.resume = point["path"]
    if folder is not None:
        config = with_data(config, folder if (folder / "status.json").is_file() else folder.resolve().parent)
    _pin(config, manifest["resolved"])
    if config.trainer.get("max_seconds"):  # the clock had its say: the run ends where it stopped
        config.trainer.max_seconds, last_step = None, manifest["totals"]["steps"]
        stop_after = min(stop_after or last_step, last_step)
    config.skip_batches = merge_skips(config.get("skip_batches"), manifest.get(NOTED) or [])
    stop = f"+callback.stop_after={{_target_:runner.callbacks.StopAfter,steps:{stop_after}}}"
    return [*overrides_of(config), *([] if stop_after is None else [stop]), *overrides]


def environment_of(manifest: Manifest, overrides: Sequence[str]) -> dict[str, str]:
    """Returns recorded environment variables: those for kernels, and OMP_NUM_THREADS unless `overrides` set the ranks."""
    machine = manifest["machine"]
    variables = {name: str(machine[name]) for name in KERNEL_VARIABLES if machine.get(name)}
    ranks = ("trainer.devices", "trainer.num_nodes", "trainer=")
    if any(word.startswith(ranks) for word in overrides):
        variables.pop("OMP_NUM_THREADS", None)
    elif threads := manifest["resolved"].get("threads"):
        variables["OMP_NUM_THREADS"] = str(threads)
    return {name: value for name, value in variables.items() if HIDDEN not in value}


def _pin(config: DictConfig, resolved: Manifest) -> None:
    """Replaces every `auto`, and a budget, by the run's resolved value; puts the ranks of several nodes on this node."""
    from tiryns.runner.loop.phases import take_over  # with torch
    from tiryns.runner.loop.resolved import kernel_of

    trainer = config.trainer
    take_over(config, resolved)
    for node, name in ((trainer, "accelerator"), (trainer, "precision"), (config.data, "layout")):
        if node.get(name) == "auto" and resolved.get(name):
            node[name] = resolved[name]
    if config.data.get("micro_batch_tokens") == "auto":
        config.data.micro_batch_tokens = resolved.get("micro_batch_tokens", "auto")
    if config.module.get("compile_model") == "auto":
        config.module.compile_model = bool(resolved.get("compile"))
    if trainer.get("attention") == "auto":
        trainer.attention = kernel_of(resolved)
    if trainer.get("devices") in AUTO or trainer.get("num_nodes", 1) != 1:
        trainer.devices, trainer.num_nodes = resolved["processes"], 1


def run_recorded_code(manifest: Manifest, folder: Path | None, words: Sequence[str]) -> int:
    """Runs `tiryns WORDS` with the code of a recorded run and the patch beside its manifest; returns the exit status."""
    place = worktree_of(manifest["code"], folder)
    if not (place / "runner" / "cli" / "reproduce").is_dir():
        raise ValueError(f"the recorded commit, in {str(place)!r}, is older than this command: train by hand")
    print(f"the recorded code stays in {place}; `git worktree remove {place}` removes it", file=sys.stderr)
    paths = os.pathsep.join([str(place), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-P", "-c", PROGRAM, *words]
    out = subprocess.PIPE if wants_json() else None
    process = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, stdout=out, check=False)
    if process.stdout:
        print_json(json.loads(process.stdout))
    return process.returncode


def worktree_of(code: Manifest, folder: Path | None) -> Path:
    """Returns the cached worktree of the recorded commit and patch, made if missing; raises ValueError if that fails."""
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
        if patch:  # which may do anything here
            question = f"{patch} changes the program that runs here. Apply it? [y/N] "
            print(question, end="", file=sys.stderr, flush=True)
            if sys.stdin.readline().strip().lower() not in ("y", "yes"):
                raise ValueError(f"--code: {str(patch)!r} was not applied; read it, and answer y to run it")
        if _git(here, "cat-file", "-e", f"{commit}^{{commit}}"):
            _git(here, "fetch", "--quiet", "origin", commit)
        _git(here, "worktree", "prune")
        if error := _git(here, "worktree", "add", "--quiet", "--detach", str(place), commit):
            raise ValueError(f"--code: the commit {commit[:12]} cannot be had from {str(here)!r}: {error}")
        if text and (error := _git(place, "apply", "--binary", "-", content=text)):
            _git(here, "worktree", "remove", "--force", str(place))
            raise ValueError(f"--code: {PATCH} does not fit the commit {commit[:12]}: {error}")
    return place


def _git(folder: Path, *words: str, content: bytes = b"") -> str:
    """Runs a git command in a folder, and returns its error message; empty if it succeeds."""
    call = subprocess.run(["git", "-C", str(folder), *words], input=content, capture_output=True, check=False)
    lines = call.stderr.decode(errors="replace").strip().splitlines()
    return (lines or ["git failed"])[-1] if call.returncode else ""
