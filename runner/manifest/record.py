"""`manifest.json` of a run: what made its model, by digest, so that it can be verified and made again.

It is written when training begins, brought up to date by checkpoints and at the end of each session, and `complete` once
the run is done. A session begins with the run, after an interruption, and after a restart of its ranks.
"""

import json
import os
import platform
import shutil
from functools import lru_cache
from pathlib import Path

from tiryns.runner import log
from tiryns.runner.manifest.code import code, patch
from tiryns.runner.manifest.digests import digests_of, file_digest, folder_digests, value_digest
from tiryns.runner.manifest.inputs import FILE_NAME, Manifest, model_digests, read_manifest
from tiryns.runner.manifest.steps import kept_lines
from tiryns.runner.run.environment import machine, packages
from tiryns.runner.run.files import write_atomically
from tiryns.runner.run.folder import Run
from tiryns.runner.run.recording import seconds_since, timestamp
from tiryns.runner.run.redaction import redact

VERSION = 1
"""Version of the file's format."""

PATCH = "code.patch"
"""File in the run folder with the uncommitted changes of the program's checkout."""

CHANGING = (FILE_NAME, "status.json", "train.log", "report.html")
"""Files of a run folder that may change after its end."""

KEPT = ("weights", "checkpoint")
"""Inputs that only the first session of a run reads; later sessions keep their record."""


def begin_manifest(folder: Run, config: Manifest, inputs: Manifest, resolved: Manifest, step: int) -> None:
    """Writes the manifest when a session begins at `step`; keeps earlier sessions and the `KEPT` inputs of the first.

    `config` is the content of `config.yaml`; `resolved` has the value of each `auto`. `inputs` has fingerprints of data,
    tokenizer and weights; if data or order differ from the checkpoint's, `inputs["changed"]` has those of the checkpoint.
    """
    before = read_manifest(folder.path)
    now: Manifest = {"code": code(), "packages": packages(), "machine": machine(), "resolved": resolved}
    session: Manifest = {
        "began": timestamp(),
        "ended": None,
        "step": step,
        "host": platform.node(),
        "pid": os.getpid(),
        "restart_of_ranks": int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)),
        "changed": {n: _changes(before[n], now[n]) for n in now if before and before[n] != now[n]},
    }
    entries = inputs | {name: value for name, value in before.get("inputs", {}).items() if name in KEPT}
    if changes := entries.pop("changed", None):
        session["changed"]["data"] = changes
    past, present = before.get("inputs", {}).get("evaluation", {}), inputs.get("evaluation", {})
    if others := {name: digest for name, digest in past.items() if present.get(name, digest) != digest}:
        session["changed"]["evaluation"] = others
        log.warning("%s: other samples than before step %d; metrics do not compare", ", ".join(others), step)
    sessions = [*before.get("sessions", []), session]
    if (text := patch()) is not None:
        write_atomically(folder.path / PATCH, text)
        now["code"]["patch"] = PATCH
    manifest: Manifest = {
        "version": VERSION,
        "complete": False,
        "config": {
            "hash": folder.status.get("config_hash"),
            "digest": file_digest(folder.path / "config.yaml"),
            "resolved": config,
        },
        **now,
        "inputs": entries,
        **({"skipped": skips} if (skips := folder.status.get("skipped")) else {}),
        "interruptions": len(sessions) - 1,
        "sessions": sessions,
    }
    _write(folder, manifest)


def update_session(
    folder: Run, step: int, cpu_seconds: float | None, totals: Manifest, ended: bool = False
) -> None:
    """Records the progress of the present session and the totals of the run; does nothing without a manifest.

    `cpu_seconds` is the CPU time of all ranks in this session; None if unknown.
    """
    if not (manifest := read_manifest(folder.path)):
        return
    session = manifest["sessions"][-1]
    session |= {"seconds": seconds_since(session["began"]), "last_step": step}
    session |= {"cpu_seconds": round(cpu_seconds, 3)} if cpu_seconds is not None else {}
    session |= {"ended": timestamp()} if ended else {}
    launch = folder.status.get("session") or {"began": session["began"]}
    manifest["totals"] = {
        "steps": step,
        **totals,
        "seconds": round(launch.get("before", 0.0) + seconds_since(launch["began"]), 3),
        "cpu_seconds": round(sum(one.get("cpu_seconds", 0.0) for one in manifest["sessions"]), 3),
    }
    _write(folder, manifest)


def complete_manifest(folder: Run) -> None:
    """Adds the digests of all outputs of a finished run; its exported model gets a copy, as its lineage.

    Does nothing without a manifest.
    """
    if not (manifest := read_manifest(folder.path)):
        return
    manifest |= {"steps": kept_lines(folder.path), "outputs": outputs_of(folder.path), "complete": True}
    whole = json.loads(redact(_text_of(manifest)))  # as it will be read
    _write(folder, {**whole, "digest": value_digest(whole)})
    if (folder.path / "model").is_dir():
        shutil.copyfile(folder.path / FILE_NAME, folder.path / "model" / FILE_NAME)


def outputs_of(folder: Path) -> dict[str, str]:
    """Returns the digest of each file of a finished run: checkpoints, model, and files that no longer change."""
    files = {path.name: path for path in sorted(folder.iterdir()) if path.is_file()}
    outputs = {n: path for n, path in files.items() if n not in CHANGING and not n.startswith(".")}
    entries = digests_of(outputs)
    for part, digests in {"checkpoints": folder_digests, "model": model_digests}.items():
        if (folder / part).is_dir():
            entries |= {f"{part}/{name}": digest for name, digest in digests(folder / part).items()}
    return entries


def _changes(before: Manifest, now: Manifest) -> Manifest:
    """Returns the former value of each entry that has changed; of nested entries by dotted name."""
    from tiryns.runner.manifest.differences import changes  # which no first session needs

    return {name: was for name, was, _ in changes(before, now)}


def _text_of(manifest: Manifest) -> str:
    """Returns a manifest as indented JSON; the program's files, most of the text, are encoded once per process."""
    code = manifest.get("code", {})
    files = _text_of_files(tuple(code.get("files", {}).items())).replace("\n", "\n  ")
    text = json.dumps({**manifest, "code": {**code, "files": "\0"}}, indent=1, default=str)
    return text.replace(json.dumps("\0"), files) + "\n"  # which no text in a manifest is


@lru_cache(1)
def _text_of_files(files: tuple[tuple[str, str], ...]) -> str:
    return json.dumps(dict(files), indent=1)


def _write(folder: Run, manifest: Manifest) -> None:
    write_atomically(folder.path / FILE_NAME, _text_of(manifest))
