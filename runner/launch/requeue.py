"""Puts a preempted job back into the queue, once, by the party whose business it is."""

import os
import signal
import subprocess
import time
from typing import Any

from iolaus.runner.run.cluster import Member, slurm_job
from iolaus.runner.run.environment import output_of
from iolaus.runner.run.signals import STOPPING, Stopped, handler_before

SECONDS_TO_BE_ENDED = 60.0
"""How long ranks other than the first wait for the end that a requeue brings."""


def requeue(stopped: Stopped, here: Member | None) -> str | None:
    """Requeues the job of this process, from the first rank; returns its id, None where there is none to requeue.

    Under submitit its own handler does it, which counts how often a job has run out of time; otherwise `scontrol
    requeue` does. A job that SLURM no longer calls running is left alone, so `scancel` stays a cancel, and so is one
    that a person stopped with Ctrl-C. Ranks other than the first wait, because a task that ends could end the job
    before it is requeued.
    """
    job = slurm_job()
    handler = handler_before(signal.SIGUSR2)
    by_submitit = hasattr(getattr(handler, "__self__", None), "checkpoint_and_try_requeue")
    if stopped.number == signal.SIGINT or not (job or by_submitit):
        return None
    if here is not None and here.rank:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        time.sleep(SECONDS_TO_BE_ENDED)
        return None
    for number in STOPPING:  # the requeue ends this job, and with it the command that asks for it
        signal.signal(number, signal.SIG_IGN)
    if job and output_of("squeue", "--noheader", "--jobs", job, "--format=%T") != "RUNNING":
        return None
    if by_submitit:
        requeued = _by_submitit(handler, stopped)
    else:
        done = subprocess.run(["scontrol", "requeue", str(job)], capture_output=True, check=False)
        requeued = done.returncode == 0
    return (job or os.environ.get("SUBMITIT_LOCAL_JOB_ID")) if requeued else None


def _by_submitit(handler: Any, stopped: Stopped) -> bool:
    from submitit.core.utils import UncompletedJobError

    try:
        handler(signal.SIGUSR2, None)
    except SystemExit as ended:  # how it ends a job it has requeued; its local executor reads the exit status
        stopped.code = ended.code
        return True
    except (subprocess.CalledProcessError, UncompletedJobError):
        pass
    return False
