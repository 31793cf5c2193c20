"""Processes, or a thread, that share the work on documents."""

import os
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.context import BaseContext
from typing import Any

from tiryns.runner.run.command.lifetime import end_with_parent
from tiryns.runner.run.environment import num_processes

MUCH_TEXT = 50_000_000
"""Characters or bytes of text from which several processes are faster."""

PIECE = 1 << 22
"""Bytes of text that a process reads at a time."""


def num_workers(size: int) -> int:
    """Returns the number of processes for `size` characters or bytes: one per core, or 1 (a thread) for little text."""
    return 1 if size < MUCH_TEXT else num_processes()


@contextmanager
def workers(number: int, job: object, context: BaseContext | None = None) -> Iterator[Executor]:
    """Yields a pool of `number` processes or, if `number` is 1, of one thread, in which `tokenizers` uses all cores.

    In the pool, `current_job()` returns `job`. `context` is the start method of the processes, by default Python's.
    """
    if number == 1:
        with rust_threads(), ThreadPoolExecutor(1, initializer=_start, initargs=(job, 0)) as threads:
            yield threads
        return
    with ProcessPoolExecutor(number, context, initializer=_start, initargs=(job, os.getpid())) as processes:
        try:
            yield processes
        finally:
            processes.shutdown(cancel_futures=True)


def current_job() -> Any:
    """Returns the job of this process or thread."""
    return _job


_job: object = None


def _start(job: object, parent: int) -> None:
    """Stores the job. A process ends when its parent process (id `parent`) is killed; a thread has `parent` 0."""
    global _job
    _job = job
    if parent:
        os.environ[_SWITCH] = "false"  # one core each
        end_with_parent(parent)


@contextmanager
def rust_threads() -> Iterator[None]:
    """Lets `tokenizers` use all cores in the context, and one core afterwards: forked workers do not have its threads.

    TOKENIZERS_PARALLELISM, if set, is respected.
    """
    global _switching_pid
    if _SWITCH in os.environ and _switching_pid != os.getpid():
        yield
        return
    os.environ.pop(_SWITCH, None)
    try:
        yield
    finally:
        os.environ[_SWITCH], _switching_pid = "false", os.getpid()


_SWITCH = "TOKENIZERS_PARALLELISM"
_switching_pid = 0  # the process that set it to false; a forked one must not change it
