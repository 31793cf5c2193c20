"""Requeues jobs of SLURM. The first rank requeues a preempted job; the batch script requeues a killed job.

Example:
    python -m tiryns.runner.launch.requeue FOLDER_OF_THE_SWEEP EXIT_STATUS_OF_SRUN MAX_NUM_KILLED
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from tiryns.runner.launch.rank import RANK_ERROR, left_error
from tiryns.runner.run.cluster import Member, member, slurm_job
from tiryns.runner.run.environment import output_of
from tiryns.runner.run.folder import Run, find_runs
from tiryns.runner.run.signals import STOPPING, Stopped, handler_before


class InQueue(NamedTuple):
    """SLURM's record of a job that is not over."""

    state: str
    reason: str
    restarts: int
    start_time: datetime

    @property
    def ends(self) -> bool:
        """Whether SLURM ends the job for good; a job that it requeues counts as restarted."""
        return self.state == "COMPLETING" and self.restarts == int(os.environ.get("SLURM_RESTART_COUNT", 0))


def in_queue(job: str) -> InQueue | None:
    """Returns SLURM's record of a job; None if SLURM does not answer, or the job waits or is over."""
    fields = ",".join(f"{name}:40" for name in ("state", "reason", "restartcnt", "starttime"))
    words = (output_of("squeue", "--noheader", "--jobs", job, f"--Format={fields}") or "").split()
    try:
        state, reason, restarts, start_time = words
        return InQueue(state, reason, int(restarts), datetime.fromisoformat(start_time))
    except ValueError:
        return None


@contextlib.contextmanager
def stops_explained() -> Iterator[None]:
    """Adds to a `Stopped` why SLURM ends the job: a cancel, SLURM's reason, or the end of another task of the job."""
    try:
        yield
    except Stopped as stop:
        job, here = slurm_job(), member()
        if job and stop.number == signal.SIGTERM and (record := in_queue(job)):
            if record.ends and record.reason == "None":
                stop.state, stop.why = "interrupted", f"job {job} was cancelled"
            elif record.ends:  # such as TimeLimit, or NodeDown for another node
                stop.state = "preempted" if stop.saved else "killed"
                stop.why = f"job {job} was ended by SLURM: {record.reason}"
            elif record.state == "RUNNING" and here is not None and not stop.saved:
                stop.state, stop.why = "killed", f"another task of job {job} has ended"
        raise


def requeue(stop: Stopped, here: Member | None) -> str | None:
    """Requeues the job of this process, from the first rank; returns its id, None if it is not requeued.

    Under submitit, submitit's handler requeues the job and counts its timeouts; otherwise `scontrol requeue` requeues
    it. A job that SLURM no longer calls running is not requeued, so `scancel` stays a cancel; nor is a job that a
    person stopped with Ctrl-C. A job that has lost a task is left to its batch script. Ranks other than the first
    wait, because a task that ends could end the job before it is requeued.
    """
    job = slurm_job()
    handler = handler_before(signal.SIGUSR2)
    by_submitit = hasattr(getattr(handler, "__self__", None), "checkpoint_and_try_requeue")
    if stop.state != "preempted" or not (job or by_submitit):
        return None
    if here is not None and here.rank:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        time.sleep(60.0)  # in which the requeue ends this rank
        return None
    _ignore_signals()
    if job and output_of("squeue", "--noheader", "--jobs", job, "--format=%T") != "RUNNING":
        return None
    success = _by_submitit(handler, stop) if by_submitit else _by_scontrol(str(job))
    return (job or os.environ.get("SUBMITIT_LOCAL_JOB_ID")) if success else None


def _ignore_signals() -> None:
    """Ignores signals: a requeue ends its job, and with it the command that asks for the requeue."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)


def _by_scontrol(job: str) -> bool:
    return subprocess.run(["scontrol", "requeue", job], capture_output=True, check=False).returncode == 0


def _by_submitit(handler: Any, stop: Stopped) -> bool:
    from submitit.core.utils import UncompletedJobError

    try:
        handler(signal.SIGUSR2, None)
    except SystemExit as end:  # how it ends a job it has requeued; its local executor reads the exit status
        stop.code = end.code
        return True
    except (subprocess.CalledProcessError, UncompletedJobError):
        pass
    return False


def after_tasks(sweep: Path, exit_status: int, max_num_killed: int) -> None:
    """Records how a job of a sweep with failed tasks ended, and requeues the job if a task was killed.

    A killed task records nothing itself. A job that is no longer running was cancelled or is requeued already.
    """
    job = slurm_job()
    record = in_queue(job) if job else None
    run = next((run for run in map(Run, find_runs(sweep)) if run.status.get("slurm_job") == job), None)
    if job is None or record is None or record.state != "RUNNING" or run is None:
        return
    status, message = run.status, left_error(run.path)
    (run.path / RANK_ERROR).unlink(missing_ok=True)
    began = (status.get("session") or {}).get("began") or "1970-01-02"
    if datetime.fromisoformat(began).timestamp() >= record.start_time.timestamp() - 1.0:
        if status["state"] not in ("running", "killed"):
            return
    elif exit_status <= 128:  # of srun, which is larger where a signal ended a task
        message = message or "it did not start; what it printed is in the job's output"
    if message:
        run.update_status(state="failed", error=message)
        return
    count = int(status.get("num_killed") or 0) + 1
    again = count <= max_num_killed
    event = f"a task of job {job} was killed (srun: exit status {exit_status})"
    then = f"requeued, {count} of {max_num_killed}" if again else f"not requeued after {max_num_killed} times"
    run.update_status(state="killed", error=f"{event}; {then}", num_killed=count)
    print(f"{event}; saved at step {status.get('step') or 0}; {then}", file=sys.stderr, flush=True)
    if again:
        _ignore_signals()
        if not _by_scontrol(job):
            run.update_status(error=f"{event}; SLURM has refused to requeue it")


if __name__ == "__main__":
    after_tasks(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    sys.exit(int(sys.argv[2]))
