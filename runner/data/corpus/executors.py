"""Runs the tasks of a stage with datatrove's executors; a restart goes on with the tasks that are not complete."""

import contextlib
import io
import os
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from copy import deepcopy
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import dill
from datatrove.executor import LocalPipelineExecutor, RayPipelineExecutor, SlurmPipelineExecutor
from datatrove.executor.base import PipelineExecutor

from tiryns.conf.values import check_choice
from tiryns.runner.data.corpus.named import Stage, make
from tiryns.runner.data.corpus.plan import Step
from tiryns.runner.data.store.remote import Folder
from tiryns.runner.patches.datatrove import run_task
from tiryns.runner.run.command.lifetime import end_with_parent

_MOST_BROKEN = 3
"""Pools of processes in a row that may lose one before any task completes."""


class Local(LocalPipelineExecutor):
    """datatrove's local executor, but a worker that is killed does not leave it waiting: its task is run again.

    Errors of a task are raised as they are; datatrove's own messages go to the logs alone.
    """

    def run(self) -> None:
        """Runs the tasks that are not complete; ChildProcessError where workers keep dying."""
        left, broken = self.get_incomplete_ranks(), 0
        while left and self.workers > 1:
            with contextlib.suppress(BrokenProcessPool):
                self._run_in_processes(left)
            before, left = len(left), self.get_incomplete_ranks()
            broken = broken + 1 if len(left) == before else 0
            if broken == _MOST_BROKEN:
                raise ChildProcessError(
                    f"workers were killed {broken} times without completing a task (out of memory?): give fewer "
                    "--workers; what is complete is kept"
                )
        for rank in left:
            _run_here(self, rank)

    def _run_in_processes(self, ranks: list[int]) -> None:
        start: dict[str, Any] = {"initializer": _start_worker, "initargs": (os.getpid(), dill.dumps(self))}
        with ProcessPoolExecutor(self.workers, get_context("spawn"), **start) as pool:
            futures = [pool.submit(_run_task, rank) for rank in ranks]
            try:
                for future in as_completed(futures):
                    future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


_executor: Local  # of this worker


def _start_worker(parent: int, executor: bytes) -> None:
    global _executor
    end_with_parent(parent)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # one core each
    _executor = dill.loads(executor)


def _run_task(rank: int) -> None:
    _run_here(_executor, rank)


def _run_here(executor: Local, rank: int) -> None:
    """Runs a task, with steps of its own, as they count what they do."""
    with contextlib.redirect_stderr(io.StringIO()):
        run_task(deepcopy(executor), rank)


EXECUTORS = {"local": Local, "slurm": SlurmPipelineExecutor, "ray": RayPipelineExecutor}
"""Executors by name."""


def make_executors(choice: Step, stages: list[Stage], store: Folder, workers: int) -> list[PipelineExecutor]:
    """The executors of the stages, of which on SLURM each waits for the one before.

    Raises ValueError for an unknown one, or a setting that datatrove's does not take.
    """
    check_choice("--executor", choice.name, EXECUTORS)
    settings = dict(choice.settings)
    made: list[PipelineExecutor] = []
    if choice.name == "slurm":
        settings.setdefault("env_command", f"export PATH={Path(sys.executable).parent}:$PATH")
    for stage in stages:
        ours: dict[str, Any] = {
            "pipeline": stage.steps,
            "tasks": stage.tasks,
            "workers": min(workers, stage.tasks) if workers else -1,
            "logging_dir": store.at(f"logs/{stage.name}"),
        }
        if choice.name == "slurm":
            ours |= {"depends": made[-1] if made else None, "job_name": f"tiryns-{stage.name}"}
        made.append(make(f"--executor {choice.name}", EXECUTORS[choice.name], settings, **ours))
    return made


def run(executors: list[PipelineExecutor]) -> bool:
    """Runs the executors one after the other; on SLURM submits their tasks as jobs that wait for each other.

    Returns whether they are complete, which submitted ones are not. Raises ChildProcessError where tasks failed.
    """
    if isinstance(executors[-1], SlurmPipelineExecutor):
        last = executors[-1]
        left = last.get_incomplete_ranks()
        if left:
            last.run()
        return not left
    for executor in executors:
        executor.run()
        if failed := executor.get_incomplete_ranks():
            logs = executor.logging_dir.resolve_paths("logs")
            raise ChildProcessError(
                f"{len(failed)} of {executor.world_size} tasks did not complete, such as {failed[0]}; their logs are in "
                f"{logs}. The same command goes on with them"
            )
    return True
