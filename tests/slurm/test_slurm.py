"""On a real cluster: every layout computes the same run, and nothing that happens to a job leaves a trace in it."""

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.runs.test_train import rows
from tests.slurm.jobs import (
    LAYOUTS,
    SLOWLY,
    SLURM,
    STEPS,
    assert_same,
    command,
    only_job,
    started_again,
)  # fmt: skip
from tests.support.processes import SECONDS, output, start, steps_done, wait_for_steps, wait_until
from tiryns.runner.run import audit
from tiryns.runner.run.folder import Run

pytestmark = pytest.mark.slurm


def test_every_layout_computes_the_same_run(undisturbed: dict[tuple[int, int], Run]) -> None:
    alone = undisturbed[1, 1]
    for layout in LAYOUTS:
        run = undisturbed[layout]
        assert run.status["state"] == "done", run.status
        assert audit.length(run.path) == STEPS
        assert audit.compare(alone.path, run.path) is None
        for ours, theirs in zip(rows(alone)[:20], rows(run)[:20], strict=True):
            for name in ("train/loss", "val/held_out/loss"):
                if ours[name]:
                    assert float(ours[name]) == pytest.approx(float(theirs[name]), rel=1e-5), (
                        layout,
                        ours["step"],
                    )


@pytest.mark.parametrize(
    ("layout", "happening"),
    [((2, 1), "preempted"), ((1, 1), "preempted"), ((1, 2), "terminated"), ((2, 1), "node lost")],
)
def test_job_goes_on_by_itself_as_if_nothing_had_been(
    cluster: Callable[..., None],
    undisturbed: dict[tuple[int, int], Run],
    arguments: list[str],
    tmp_path: Path,
    layout: tuple[int, int],
    happening: str,
) -> None:
    nodes, tasks = layout
    process = start(
        ["-m", *arguments, *SLURM, *SLOWLY, "hydra.launcher.partition=low", f"trainer.num_nodes={nodes}",
         f"trainer.devices={tasks}", "logger=[csv,wandb]"],
        tmp_path,
    )  # fmt: skip
    wait_for_steps(process, tmp_path, 15)
    run = only_job(tmp_path)
    job = run.status["slurm_job"]
    if happening == "preempted":
        command(
            "sbatch", "--partition=high", "--nodes=2", "--exclusive", f"--chdir={tmp_path}", "--wrap=sleep 3"
        )
    elif happening == "terminated":
        command("scancel", "--signal=TERM", job)
    else:
        cluster("lose", "n2")
        cluster("back", "n2")
    assert process.wait(timeout=SECONDS) == 0, output(tmp_path)
    assert started_again(job) == 1, output(tmp_path)
    if happening != "node lost":
        assert "requeued as job" in output(tmp_path)
    assert_same(run, undisturbed[layout])
    parts = [folder.name for folder in run.path.glob("wandb/offline-run-*")]
    assert len(parts) == 2
    assert len({name.rpartition("-")[2] for name in parts}) == 1, "one run at W&B"


def test_cancelled_job_is_saved_and_stays_cancelled(
    cluster: object, undisturbed: dict[tuple[int, int], Run], arguments: list[str], tmp_path: Path
) -> None:
    submitted = start(["-m", *arguments, *SLURM, *SLOWLY, "hydra.launcher.wait=false"], tmp_path)
    assert submitted.wait(timeout=SECONDS) == 0, output(tmp_path)
    run = only_job(tmp_path)
    job = run.status["slurm_job"]
    assert f"job {job}:" in (tmp_path / "output.txt").read_text()
    wait_until(lambda: steps_done(tmp_path) > 10, tmp_path)
    command("scancel", job)
    wait_until(lambda: not run.is_locked() and not command("squeue", "--noheader"), tmp_path)
    assert started_again(job) == 0
    assert run.status["state"] == "interrupted", run.status
    assert run.status["error"] == f"job {job} was cancelled"
    assert audit.length(run.path) == run.status["step"] < STEPS
    again = start(
        ["-m", f"resume={run.path.parent}", "hydra.launcher.wait=true", "allowed_targets=[tests]"], tmp_path
    )
    assert again.wait(timeout=SECONDS) == 0, output(tmp_path)
    assert_same(run, undisturbed[1, 1])


@pytest.mark.parametrize(("nodes", "tasks", "ranks"), [(2, 1, 1), (1, 1, 2), (1, 2, 2)])
def test_tasks_of_a_batch_script_share_a_folder_and_come_back_to_it(
    cluster: object,
    undisturbed: dict[tuple[int, int], Run],
    arguments: list[str],
    tmp_path: Path,
    nodes: int,
    tasks: int,
    ranks: int,
) -> None:
    layout = [f"trainer.num_nodes={nodes}", f"trainer.devices={ranks}"]
    words = [
        "srun", f"--cpus-per-task={ranks // tasks}", sys.executable, "-m", "runner.train", *arguments,
        *SLOWLY, *layout,
    ]  # fmt: skip
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/bash\nexport PYTHONPATH={ROOT}\n{shlex.join(words)}\n")
    asked = [f"--nodes={nodes}", f"--ntasks-per-node={tasks}", f"--cpus-per-task={ranks // tasks}"]
    answer = command("sbatch", f"--chdir={tmp_path}", *asked, "--signal=USR1@60", str(script))
    job = answer.split()[-1]
    wait_until(lambda: steps_done(tmp_path) > 10, tmp_path)
    command("scancel", "--signal=USR1", job)
    wait_until(lambda: only_job(tmp_path).status["state"] == "done", tmp_path)
    run = only_job(tmp_path)
    assert started_again(job) == 1, output(tmp_path)
    assert_same(run, undisturbed[nodes, ranks])


def test_rank_that_fails_ends_the_job_with_its_message(
    cluster: object, arguments: list[str], tmp_path: Path
) -> None:
    broken = [
        "allowed_targets=[tests]",
        "+callback.fail={_target_: tests.slurm.failing.FailsOnLastRank, step: 3}",
    ]
    process = start(["-m", *arguments, *SLURM, *broken, "trainer.devices=2"], tmp_path)
    assert process.wait(timeout=SECONDS) == 1, output(tmp_path)
    assert "the last rank has had enough" in (tmp_path / "output.txt").read_text()
    assert json.loads(next(tmp_path.glob("outputs/**/status.json")).read_text())["state"] == "failed"


def test_search_runs_its_trials_as_jobs(cluster: object, arguments: list[str], tmp_path: Path) -> None:
    searching = [
        "hydra/sweeper=optuna", "hydra.sweeper.n_trials=4", "hydra.sweeper.n_jobs=2", "trainer.max_steps=4",
        "trainer.validate_every=2", "optimizer.lr=tag(log, interval(1e-4, 1e-2))",
    ]  # fmt: skip
    process = start(["-m", *arguments, *SLURM, *searching], tmp_path)
    assert process.wait(timeout=SECONDS) == 0, output(tmp_path)
    trials = [
        json.loads(file.read_text()) for file in sorted(tmp_path.glob("outputs/*/*-sweep/*/status.json"))
    ]
    assert len(trials) == 4
    assert {trial["state"] for trial in trials} <= {"done", "pruned"}
    assert len({trial["slurm_job"] for trial in trials}) == 4
