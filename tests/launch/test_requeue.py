"""What becomes of a job of SLURM that was stopped or killed, and what its run folder says of it."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.queue import Queue
from tiryns.runner.launch.requeue import after_tasks, requeue, stops_explained
from tiryns.runner.run.cluster import member
from tiryns.runner.run.folder import Run
from tiryns.runner.run.signals import STOPPING, Stopped


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    handlers = {number: signal.getsignal(number) for number in STOPPING}
    yield Queue(tmp_path, monkeypatch)
    for number, handler in handlers.items():
        signal.signal(number, handler)


BEFORE, HERE = "2026-11-22T11:00:00.5", "2026-11-22T12:00:09.5"
"""Sessions that began in an earlier start of the job, and in this one."""


def ended(folder: Path, exit_status: int, rank_error: str | None = None, **status: Any) -> dict[str, Any]:
    """The status of a run after srun has ended with an exit status."""
    other, run = Run(folder / "0"), Run(folder / "1")
    for place in (other, run):
        place.path.mkdir(parents=True)
    other.update_status(state="running", slurm_job="11", session={"began": HERE})
    run.update_status(slurm_job="12", **status)
    if rank_error:
        (run.path / ".rank-error").write_text(rank_error)
    after_tasks(folder, exit_status, max_num_killed=3)
    assert other.status["state"] == "running"
    assert not (run.path / ".rank-error").exists()
    return run.status


KILLED = "a task of job 12 was killed (srun: exit status"
MISSING = {"rank_error": "no such file"}


@pytest.mark.parametrize(
    ("exit_status", "state", "began", "more", "outcome"),
    [
        *(
            (number, state, began, {"num_killed": 2}, (1, "killed", f"{KILLED} {number}); requeued, 3 of 3"))
            for number, state, began in [
                (137, "running", HERE),
                (75, "killed", HERE),
                (137, "waiting", None),
                (137, "preempted", BEFORE),
                (139, "killed", BEFORE),
            ]
        ),
        (137, "running", HERE, {"num_killed": 3}, (0, "killed", "not requeued after 3 times")),
        (1, "preempted", BEFORE, {}, (0, "failed", "it did not start")),
        (137, "preempted", BEFORE, MISSING, (0, "failed", "no such file")),
        (1, "waiting", None, MISSING, (0, "failed", "no such file")),
        (137, "running", HERE, MISSING, (0, "failed", "no such file")),
    ],
)
def test_job_is_requeued_where_a_task_was_killed_and_fails_by_an_error(
    queue: Queue, tmp_path: Path, exit_status: int, state: str, began: str | None, more: dict[str, Any],
    outcome: tuple[int, str, str],
) -> None:  # fmt: skip
    queue.says("RUNNING")
    session = {"began": began} if began else None
    status = ended(tmp_path / "sweep", exit_status, state=state, session=session, **more)
    requeued, ends, message = outcome
    assert (queue.requeued, status["state"]) == (requeued, ends)
    assert message in status["error"]
    assert not requeued or status["num_killed"] == 3


def test_requeue_that_slurm_refuses_is_noted(queue: Queue, tmp_path: Path) -> None:
    queue.says("RUNNING")
    queue.put("scontrol", "exit 1")
    status = ended(tmp_path / "sweep", 137, state="running", session={"began": HERE})
    assert status["state"] == "killed"
    assert "SLURM has refused to requeue it" in status["error"]


@pytest.mark.parametrize(
    ("said", "state"),
    [
        *(("RUNNING", ended) for ended in ("failed", "preempted", "interrupted", "done")),
        ("COMPLETING", "running"),
    ],
)
def test_job_that_says_how_it_ended_or_that_slurm_ends_is_left_alone(
    queue: Queue, tmp_path: Path, said: str, state: str
) -> None:
    queue.says(said)
    status = ended(tmp_path / "sweep", 137, state=state, session={"began": HERE}, error="it says why")
    assert queue.requeued == 0
    assert (status["state"], status["error"]) == (state, "it says why")


@pytest.mark.parametrize(
    ("said", "tasks", "number", "saved", "state"),
    [
        (("COMPLETING",), 1, signal.SIGTERM, False, "interrupted"),
        (("COMPLETING",), 2, signal.SIGTERM, True, "interrupted"),
        (("COMPLETING", "TimeLimit"), 1, signal.SIGTERM, True, "preempted"),
        (("COMPLETING", "NodeDown"), 2, signal.SIGTERM, False, "killed"),
        (("COMPLETING", "None", 1), 1, signal.SIGTERM, True, "preempted"),
        (("RUNNING",), 2, signal.SIGTERM, False, "killed"),
        (("RUNNING",), 2, signal.SIGTERM, True, "preempted"),
        (("RUNNING",), 1, signal.SIGTERM, False, "preempted"),
        (("RUNNING",), 2, signal.SIGUSR2, False, "preempted"),
        (("RUNNING",), 1, signal.SIGINT, True, "interrupted"),
    ],
)
def test_signal_of_slurm_is_understood(
    queue: Queue,
    monkeypatch: pytest.MonkeyPatch,
    said: tuple[Any, ...],
    tasks: int,
    number: int,
    saved: bool,
    state: str,
) -> None:
    queue.says(*said)
    step = {"STEP_ID": 0, "NTASKS": tasks, "STEP_NUM_NODES": tasks, "PROCID": 0}
    for name, value in step.items():
        monkeypatch.setenv(f"SLURM_{name}", str(value))
    with pytest.raises(Stopped) as caught, stops_explained():
        raise Stopped(number, saved)
    assert caught.value.state == state
    assert ("cancelled" in str(caught.value)) == (said[0] == "COMPLETING" and state == "interrupted")
    assert (str(said[-1]) in str(caught.value)) == (said[-1] in ("TimeLimit", "NodeDown"))
    asked = requeue(caught.value, member())
    assert asked == ("12" if state == "preempted" and said[0] == "RUNNING" else None)
    assert queue.requeued == (asked is not None)
