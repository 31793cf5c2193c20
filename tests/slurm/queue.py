"""Commands of SLURM that answer from a file, for what a job does with the answer; `tests/slurm` asks a real cluster."""

from pathlib import Path

import pytest


class Queue:
    """A queue with job 12 in it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder / "queue"
        self.folder.mkdir()
        self.put("sbatch", f'cp "$1" {self.folder}/script; echo Submitted batch job 12')
        self.put("scontrol", f'echo "$@" >> {self.folder}/asked')
        monkeypatch.setenv("PATH", str(self.folder), prepend=":")
        monkeypatch.setenv("SLURM_JOB_ID", "12")
        for name in ("SLURM_ARRAY_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_STEP_ID", "SLURM_NTASKS"):
            monkeypatch.delenv(name, raising=False)

    def put(self, name: str, script: str) -> None:
        """Makes a command."""
        (self.folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.folder / name).chmod(0o755)

    def says(self, state: str, reason: str = "None", restarts: int = 0) -> None:
        """Has squeue answer so, of a job that has started at noon."""
        long = f"{state} {reason} {restarts} 2026-11-22T12:00:00"
        self.put("squeue", f'case "$*" in *%T*) echo {state};; *) echo {long};; esac')

    @property
    def requeued(self) -> int:
        """How often scontrol was asked to requeue the job."""
        file = self.folder / "asked"
        return file.read_text().splitlines().count("requeue 12") if file.exists() else 0
