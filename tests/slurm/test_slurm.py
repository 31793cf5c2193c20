"""On a real cluster: every layout computes the same run, and nothing that happens to a job leaves a trace in it."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from iolaus.runner.run import audit
from iolaus.runner.run.folder import RunFolder
from tests.conftest import ROOT, TINY
from tests.runs.test_train import assert_bitwise, rows, weights
from tests.support.processes import ranks_in, start, steps_done, wait_for_steps

pytestmark = pytest.mark.slurm

STEPS = 40
RUN = [
    *TINY,
    f"trainer.max_steps={STEPS}",
    "trainer.validate_every=9",
    "checkpoint.every_steps=6",
    "data.num_workers=1",
]
SLURM = ["hydra/launcher=slurm", "hydra.launcher.cpus_per_task=1", "hydra.launcher.timeout_min=30"]
SLOWLY = ["allowed_targets=[tests]", "+callback.nap={_target_: tests.slurm.nap.Nap, seconds: 0.4}"]
LAYOUTS = [(1, 1), (1, 2), (2, 1), (2, 2)]
"""Nodes and ranks on each."""


@pytest.fixture(scope="module")
def arguments(text_file: Path) -> list[str]:
    return [*RUN, f"data.source={text_file}"]


@pytest.fixture(scope="module")
def undisturbed(
    cluster: object, arguments: list[str], tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[int, int], RunFolder]:
    """A sweep of two by two jobs: every layout."""
    cwd = tmp_path_factory.mktemp("whole")
    process = start(["-m", *arguments, *SLURM, "trainer.num_nodes=1,2", "trainer.devices=1,2"], cwd)
    assert process.wait(timeout=900) == 0, output(cwd)
    sweep = next(cwd.glob("outputs/*/*-sweep"))
    assert (sweep / "report.html").exists()
    return {layout: RunFolder(sweep / str(number)) for number, layout in enumerate(LAYOUTS)}


def output(cwd: Path) -> str:
    """What the command and its jobs have printed."""
    files = [cwd / "output.txt", *sorted(cwd.glob("outputs/**/*_log.*")), *sorted(cwd.glob("slurm-*.out"))]
    return "\n".join(f"--- {file.name}\n{file.read_text()[-2500:]}" for file in files if file.exists())


def only_job(cwd: Path) -> RunFolder:
    folders = [file.parent for file in cwd.glob("outputs/**/status.json")]
    assert len(folders) == 1, folders
    return RunFolder(folders[0])


def command(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def wait_until(happened: Callable[[], bool], cwd: Path, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, output(cwd)
        time.sleep(0.1)


def started_again(job: str) -> int:
    """How often SLURM has started a job again."""
    facts = command("scontrol", "show", "job", job)
    return int(next(fact for fact in facts.split() if fact.startswith("Restarts=")).partition("=")[2])


def assert_same(run: RunFolder, whole: RunFolder) -> None:
    assert run.status()["state"] == "done", run.status()
    assert audit.compare(whole.path, run.path) is None
    assert audit.length(run.path) == STEPS
    assert_bitwise(weights(whole, STEPS), weights(run, STEPS))
    assert rows(whole) == rows(run)


def test_every_layout_computes_the_same_run(undisturbed: dict[tuple[int, int], RunFolder]) -> None:
    alone = undisturbed[1, 1]
    for layout in LAYOUTS:
        run = undisturbed[layout]
        assert run.status()["state"] == "done", run.status()
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
    undisturbed: dict[tuple[int, int], RunFolder],
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
    job = run.status()["slurm_job"]
    if happening == "preempted":
        command(
            "sbatch", "--partition=high", "--nodes=2", "--exclusive", f"--chdir={tmp_path}", "--wrap=sleep 3"
        )
    elif happening == "terminated":
        command("scancel", "--signal=TERM", job)
    else:
        cluster("lose", "n2")
        cluster("back", "n2")
    assert process.wait(timeout=400) == 0, output(tmp_path)
    assert started_again(job) == 1, output(tmp_path)
    if happening != "node lost":
        assert "requeued as job" in output(tmp_path)
    assert_same(run, undisturbed[layout])
    parts = [folder.name for folder in run.path.glob("wandb/offline-run-*")]
    assert len(parts) == 2
    assert len({name.rpartition("-")[2] for name in parts}) == 1, "one run at W&B"


def kill_agent(run: RunFolder, cwd: Path, rank: int) -> None:
    """Kills the task of SLURM that has started a rank, or is the only one."""
    ranks = ranks_in(cwd)
    if ranks:
        stat = Path(f"/proc/{ranks[rank]}/stat").read_text()
        os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)
    else:
        os.kill(run.status()["pid"], signal.SIGKILL)


@pytest.mark.parametrize(("layout", "rank"), [((1, 2), 0), ((2, 1), 0), ((2, 1), 1)])
def test_job_whose_task_is_killed_is_requeued_and_goes_on(
    cluster: object,
    undisturbed: dict[tuple[int, int], RunFolder],
    arguments: list[str],
    tmp_path: Path,
    layout: tuple[int, int],
    rank: int,
) -> None:
    nodes, devices = layout
    process = start(
        ["-m", *arguments, *SLURM, *SLOWLY, f"trainer.num_nodes={nodes}", f"trainer.devices={devices}"],
        tmp_path,
    )
    wait_for_steps(process, tmp_path, 15)
    run = only_job(tmp_path)
    job = run.status()["slurm_job"]
    kill_agent(run, tmp_path, rank)
    wait_until(lambda: "requeued, 1 of 3" in str(run.status()["error"]), tmp_path)
    assert run.state() == "killed"
    assert process.wait(timeout=400) == 0, output(tmp_path)
    assert started_again(job) == 1, output(tmp_path)
    assert_same(run, undisturbed[layout])


def test_job_that_is_killed_too_often_ends_and_says_so(
    cluster: object, arguments: list[str], tmp_path: Path
) -> None:
    process = start(["-m", *arguments, *SLURM, *SLOWLY, "hydra.launcher.max_num_killed=1"], tmp_path)
    for steps in (7, 14):
        wait_for_steps(process, tmp_path, steps)
        run = only_job(tmp_path)
        wait_until(lambda run=run: run.state() == "running", tmp_path)  # type: ignore[misc]
        kill_agent(run, tmp_path, 0)
        wait_until(lambda run=run: run.status()["state"] == "killed", tmp_path)  # type: ignore[misc]
    assert process.wait(timeout=120) == 1
    assert "was killed (srun: exit status 137); not requeued after 1 times" in run.status()["error"]
    assert "not requeued after 1 times" in (tmp_path / "output.txt").read_text()
    assert started_again(run.status()["slurm_job"]) == 1
    assert not command("squeue", "--noheader")


def test_rank_that_is_killed_is_replaced_without_a_requeue(
    cluster: object, undisturbed: dict[tuple[int, int], RunFolder], arguments: list[str], tmp_path: Path
) -> None:
    layout = ["trainer.num_nodes=2", "trainer.devices=2"]
    process = start(["-m", *arguments, *SLURM, *SLOWLY, *layout], tmp_path)
    wait_for_steps(process, tmp_path, 15)
    os.kill(ranks_in(tmp_path)[3], signal.SIGKILL)
    assert process.wait(timeout=400) == 0, output(tmp_path)
    run = only_job(tmp_path)
    assert started_again(run.status()["slurm_job"]) == 0
    assert "restart 1 of 3, from step 1" in output(tmp_path)
    assert_same(run, undisturbed[2, 2])


def test_lost_node_of_a_job_that_is_not_requeued_is_noted(
    cluster: Callable[..., None], arguments: list[str], tmp_path: Path
) -> None:
    process = start(
        ["-m", *arguments, *SLURM, *SLOWLY, "hydra.launcher.requeue=false", "trainer.num_nodes=1:2"], tmp_path
    )
    wait_for_steps(process, tmp_path, 5)
    cluster("lose", "n1")
    cluster("back", "n1")
    assert process.wait(timeout=120) == 1
    run = only_job(tmp_path)
    assert run.status()["state"] == "killed", run.status()
    assert "ended as NODE_FAIL" in run.status()["error"]


def test_ranks_may_be_tasks(
    cluster: object, undisturbed: dict[tuple[int, int], RunFolder], arguments: list[str], tmp_path: Path
) -> None:
    layout = ["trainer.num_nodes=2", "trainer.devices=2", "hydra.launcher.tasks_per_node=2"]
    process = start(["-m", *arguments, *SLURM, *layout], tmp_path)
    assert process.wait(timeout=400) == 0, output(tmp_path)
    assert_same(only_job(tmp_path), undisturbed[2, 2])


def test_cancelled_job_is_saved_and_stays_cancelled(
    cluster: object, undisturbed: dict[tuple[int, int], RunFolder], arguments: list[str], tmp_path: Path
) -> None:
    submitted = start(["-m", *arguments, *SLURM, *SLOWLY, "hydra.launcher.wait=false"], tmp_path)
    assert submitted.wait(timeout=120) == 0, output(tmp_path)
    run = only_job(tmp_path)
    job = run.status()["slurm_job"]
    assert f"job {job}:" in (tmp_path / "output.txt").read_text()
    wait_until(lambda: steps_done(tmp_path) > 10, tmp_path)
    command("scancel", job)
    wait_until(lambda: not run.is_locked() and not command("squeue", "--noheader"), tmp_path)
    assert started_again(job) == 0
    assert run.status()["state"] == "interrupted", run.status()
    assert run.status()["error"] == f"job {job} was cancelled"
    assert audit.length(run.path) == run.status()["step"] < STEPS
    again = start(["-m", f"resume={run.path.parent}", "hydra.launcher.wait=true"], tmp_path)
    assert again.wait(timeout=300) == 0, output(tmp_path)
    assert_same(run, undisturbed[1, 1])


def test_ranks_of_a_batch_script_share_a_folder_and_come_back_to_it(
    cluster: object, undisturbed: dict[tuple[int, int], RunFolder], arguments: list[str], tmp_path: Path
) -> None:
    words = ["srun", sys.executable, "-m", "runner.train", *arguments, *SLOWLY, "trainer.devices=2"]
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/bash\nexport PYTHONPATH={ROOT}\n{shlex.join(words)}\n")
    answer = command("sbatch", f"--chdir={tmp_path}", "--ntasks-per-node=2", "--signal=USR1@60", str(script))
    job = answer.split()[-1]
    wait_until(lambda: steps_done(tmp_path) > 10, tmp_path)
    command("scancel", "--signal=USR1", job)
    wait_until(lambda: only_job(tmp_path).status()["state"] == "done", tmp_path)
    run = only_job(tmp_path)
    assert started_again(job) == 1, output(tmp_path)
    assert_same(run, undisturbed[1, 2])


def test_rank_that_fails_ends_the_job_with_its_message(
    cluster: object, arguments: list[str], tmp_path: Path
) -> None:
    broken = [
        "allowed_targets=[tests]",
        "+callback.fail={_target_: tests.slurm.failing.FailsOnLastRank, step: 3}",
    ]
    process = start(["-m", *arguments, *SLURM, *broken, "trainer.devices=2"], tmp_path)
    assert process.wait(timeout=300) == 1, output(tmp_path)
    assert "the last rank has had enough" in (tmp_path / "output.txt").read_text()
    assert json.loads(next(tmp_path.glob("outputs/**/status.json")).read_text())["state"] == "failed"


def test_search_runs_its_trials_as_jobs(cluster: object, arguments: list[str], tmp_path: Path) -> None:
    searching = [
        "hydra/sweeper=optuna", "hydra.sweeper.n_trials=4", "hydra.sweeper.n_jobs=2", "trainer.max_steps=4",
        "trainer.validate_every=2", "optimizer.lr=tag(log, interval(1e-4, 1e-2))",
    ]  # fmt: skip
    process = start(["-m", *arguments, *SLURM, *searching], tmp_path)
    assert process.wait(timeout=600) == 0, output(tmp_path)
    trials = [
        json.loads(file.read_text()) for file in sorted(tmp_path.glob("outputs/*/*-sweep/*/status.json"))
    ]
    assert len(trials) == 4
    assert {trial["state"] for trial in trials} <= {"done", "pruned"}
    assert len({trial["slurm_job"] for trial in trials}) == 4


def test_layout_that_does_not_fit_is_refused_before_it_is_submitted(
    cluster: object, arguments: list[str], tmp_path: Path
) -> None:
    process = start(["-m", *arguments, *SLURM, "hydra.launcher.tasks_per_node=3"], tmp_path)
    assert process.wait(timeout=120) == 1
    assert "do not fit trainer.num_nodes=1 trainer.devices=1" in (tmp_path / "output.txt").read_text()
    assert not command("squeue", "--noheader")
