"""Runs as jobs of SLURM: their settings, and what became of them."""

import subprocess
from pathlib import Path

from tests.conftest import TINY
from tests.runs.test_train import assert_same_run
from tiryns.runner.run.folder import Run

STEPS = 40
RUN = [
    *TINY, f"trainer.max_steps={STEPS}", "trainer.validate_every=9", "checkpoint.every_steps=6",
    "data.num_workers=1",
]  # fmt: skip
SLURM = ["hydra/launcher=slurm", "hydra.launcher.cpus_per_task=1", "hydra.launcher.timeout_min=30"]
SLOWLY = ["allowed_targets=[tests]", "+callback.nap={_target_: tests.slurm.nap.Nap, seconds: 0.4}"]
LAYOUTS = [(1, 1), (1, 2), (2, 1), (2, 2)]
"""Nodes and ranks on each."""


def only_job(cwd: Path) -> Run:
    folders = [file.parent for file in cwd.glob("outputs/**/status.json")]
    assert len(folders) == 1, folders
    return Run(folders[0])


def command(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def started_again(job: str) -> int:
    """How often SLURM has started a job again."""
    facts = command("scontrol", "show", "job", job)
    return int(next(fact for fact in facts.split() if fact.startswith("Restarts=")).partition("=")[2])


def assert_same(run: Run, whole: Run) -> None:
    assert run.status["state"] == "done", run.status
    assert_same_run(whole, run, STEPS)
