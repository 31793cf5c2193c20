"""On a real cluster: jobs whose ranks or tasks are killed, or whose node is lost, and what their folders say of it."""

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.launch.test_agent import assert_same_curve
from tests.slurm.jobs import SLOWLY, SLURM, assert_same, command, only_job, started_again
from tests.support.processes import SECONDS, output, ranks_in, start, wait_for_steps, wait_until
from tiryns.runner.run.folder import Run

pytestmark = pytest.mark.slurm


def kill_agent(run: Run, cwd: Path, rank: int) -> None:
    """Kills the task of SLURM that has started a rank, or is the only one."""
    ranks = ranks_in(cwd)
    if ranks:
        stat = Path(f"/proc/{ranks[rank]}/stat").read_text()
        os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)
    else:
        os.kill(run.status["pid"], signal.SIGKILL)


@pytest.mark.parametrize(("layout", "rank"), [((1, 2), 0), ((2, 1), 0), ((2, 1), 1)])
def test_job_whose_task_is_killed_is_requeued_and_goes_on(
    cluster: object,
    undisturbed: dict[tuple[int, int], Run],
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
    job = run.status["slurm_job"]
    kill_agent(run, tmp_path, rank)
    wait_until(lambda: "requeued, 1 of 3" in str(run.status["error"]), tmp_path)
    assert run.state == "killed"
    assert process.wait(timeout=SECONDS) == 0, output(tmp_path)
    assert started_again(job) == 1, output(tmp_path)
    assert_same(run, undisturbed[layout])


def test_job_that_is_killed_too_often_ends_and_says_so(
    cluster: object, arguments: list[str], tmp_path: Path
) -> None:
    process = start(["-m", *arguments, *SLURM, *SLOWLY, "hydra.launcher.max_num_killed=1"], tmp_path)
    for steps in (7, 14):
        wait_for_steps(process, tmp_path, steps)
        run = only_job(tmp_path)
        wait_until(lambda run=run: run.state == "running", tmp_path)  # type: ignore[misc]
        kill_agent(run, tmp_path, 0)
        wait_until(lambda run=run: run.status["state"] == "killed", tmp_path)  # type: ignore[misc]
    assert process.wait(timeout=SECONDS) == 1
    assert "was killed (srun: exit status 137); not requeued after 1 times" in run.status["error"]
    assert "not requeued after 1 times" in (tmp_path / "output.txt").read_text()
    assert started_again(run.status["slurm_job"]) == 1
    assert not command("squeue", "--noheader")


def test_rank_that_is_killed_is_replaced_without_a_requeue(
    cluster: object, undisturbed: dict[tuple[int, int], Run], arguments: list[str], tmp_path: Path
) -> None:
    layout = ["trainer.num_nodes=2", "trainer.devices=2"]
    process = start(["-m", *arguments, *SLURM, *SLOWLY, *layout], tmp_path)
    wait_for_steps(process, tmp_path, 15)
    os.kill(ranks_in(tmp_path)[3], signal.SIGKILL)
    assert process.wait(timeout=SECONDS) == 0, output(tmp_path)
    run = only_job(tmp_path)
    assert started_again(run.status["slurm_job"]) == 0
    assert "restart 1 of 3, from step 1" in output(tmp_path)
    assert_same_curve(run, undisturbed[2, 2])


def test_lost_node_of_a_job_that_is_not_requeued_is_noted(
    cluster: Callable[..., None], arguments: list[str], tmp_path: Path
) -> None:
    process = start(
        ["-m", *arguments, *SLURM, *SLOWLY, "hydra.launcher.requeue=false", "trainer.num_nodes=1:2"], tmp_path
    )
    wait_for_steps(process, tmp_path, 5)
    cluster("lose", "n1")
    cluster("back", "n1")
    assert process.wait(timeout=SECONDS) == 1
    run = only_job(tmp_path)
    assert run.status["state"] == "killed", run.status
    assert re.search("NODE_FAIL|NodeDown", run.status["error"]), (
        run.status
    )  # noted by the launcher or the other node


def test_ranks_may_be_tasks(
    cluster: object, undisturbed: dict[tuple[int, int], Run], arguments: list[str], tmp_path: Path
) -> None:
    layout = ["trainer.num_nodes=2", "trainer.devices=2", "hydra.launcher.tasks_per_node=2"]
    process = start(["-m", *arguments, *SLURM, *layout], tmp_path)
    assert process.wait(timeout=SECONDS) == 0, output(tmp_path)
    assert_same(only_job(tmp_path), undisturbed[2, 2])
