"""Loader processes: how they start, end with their parent, and are replaced where the system has killed them."""

import atexit
import logging
import multiprocessing
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pickle import UnpicklingError
from types import FrameType
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from tiryns.runner.data.handover import serialize_batch
from tiryns.runner.patches.torch import loaders
from tiryns.runner.run.lifetime import end_with_parent
from tiryns.runner.run.signals import STOPPING

log = logging.getLogger("tiryns")

END = object()
"""After the last batch."""

SECONDS_TO_HEAR_OF_DEATH = 0.5


class ForkSafeLoader(DataLoader[Any]):
    """Loads whole batches; forks its workers when the threads of the last collective have stopped."""

    def __init__(self, dataset: Dataset[Any], num_workers: int, **options: Any) -> None:
        defaults: dict[str, Any] = {"batch_size": None, "collate_fn": serialize_batch}
        if num_workers:
            defaults |= {"worker_init_fn": set_up_worker, "prefetch_factor": 4}
        super().__init__(dataset, num_workers=num_workers, **{**defaults, **options})

    def __iter__(self) -> Any:
        wait_before_fork(self.num_workers)
        return super().__iter__()


class StepSampler(Sampler[int]):
    """The step numbers from `start`; its length is that of the whole run, as Lightning counts from the start too."""

    def __init__(self, start: int, stop: int) -> None:
        self.start, self.stop = start, stop

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.stop))

    def __len__(self) -> int:
        return self.stop


class StepLoader(ForkSafeLoader):
    """Loads the batches of a `StepSampler`; loader processes that the system has killed are replaced.

    A batch is a function of its step, so new processes go on where the old ones were. Processes that are killed twice at
    the same step are not replaced again.

    Raises:
        RuntimeError: a loader process is killed again and again, or fails by itself.

    Example:
        >>> loader = StepLoader(range(8), num_workers=0, sampler=StepSampler(2, 5))
        >>> list(loader)
        [2, 3, 4]
    """

    def __iter__(self) -> Any:
        sampler: Any = self.sampler
        deaths.begin_reading()
        try:
            yield from self._replacing(sampler.start)
        finally:
            deaths.end_reading()

    def _replacing(self, step: int) -> Iterator[Any]:
        failed_at = -1
        while True:
            batches = self._batches_from(step)
            try:
                while (batch := fetch(batches)) is not END:
                    yield batch
                    step += 1
                return
            except WorkerDeath as death:
                end_workers(batches)
                if step == failed_at:
                    raise RuntimeError(
                        f"{death}, twice before step {step + 1}; is there memory for data.num_workers?"
                    ) from death
                failed_at = step
                log.warning("%s; new ones go on at step %d", death, step + 1)

    def _batches_from(self, step: int) -> Any:
        sampler: Any = self.sampler
        began, sampler.start = sampler.start, step
        try:
            batches = super().__iter__()
        finally:
            sampler.start = began
        if self.num_workers:
            deaths.handle()
        return batches


class WorkerDeath(RuntimeError):
    """A loader process was killed.

    Example:
        >>> raise WorkerDeath("a loader process was killed")
        Traceback (most recent call last):
        tiryns.runner.data.workers.WorkerDeath: a loader process was killed
    """


def fetch(batches: Any) -> Any:
    """The next batch, or `END`.

    Raises:
        WorkerDeath: a loader process was killed since the last one.
    """
    try:
        if deaths.death is not None:
            raise deaths.death
        deaths.fetching = True
        try:
            return next(batches, END)
        finally:
            deaths.fetching = False
    except (
        RuntimeError,
        OSError,
        EOFError,
        UnpicklingError,
    ) as error:  # half a message has many ways to fail
        if deaths.death is None and not _was_killed(loaders.processes_of(batches)):
            raise
        raise WorkerDeath("a loader process was killed") from error


def _was_killed(workers: list[Any]) -> bool:
    """Whether a signal has ended one of the processes, which the system may tell a little later."""
    deadline = time.monotonic() + SECONDS_TO_HEAR_OF_DEATH
    while not any((worker.exitcode or 0) < 0 for worker in workers):
        if not workers or time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def end_workers(batches: Any) -> None:
    """Kills the loader processes of an iterator of torch's, which would wait for the rest of a message."""
    loaders.kill(batches)
    deaths.death = None


@dataclass
class Deaths:
    """What is known of loader processes that the system has killed.

    Torch's handler of SIGCHLD raises an error wherever the training process is at that moment, from where training
    cannot go on; this one raises it where a batch is fetched.
    """

    readers: int = 0
    """Loaders that replace their processes and are being read."""
    fetching: bool = False
    death: RuntimeError | None = None
    handled: bool = False

    def begin_reading(self) -> None:
        """A loader that replaces its processes is read from now on."""
        self.readers, self.death = self.readers + 1, None

    def end_reading(self) -> None:
        """That loader is no longer read."""
        self.readers -= 1

    def handle(self) -> None:
        """Handles SIGCHLD after torch, which sets its own handler when the first loader processes start."""
        if self.handled or threading.current_thread() is not threading.main_thread():
            return
        self.handled = True
        of_torch: Any = signal.getsignal(signal.SIGCHLD)

        def handle(number: int, frame: FrameType | None) -> None:
            try:
                of_torch(number, frame)
            except RuntimeError as death:
                self.death = death
                if self.fetching or not self.readers:
                    raise

        signal.signal(signal.SIGCHLD, handle)


deaths = Deaths()


def wait_before_fork(num_workers: int) -> None:
    """Waits until a fork is safe, if there will be any."""
    # A worker that is forked while a thread of gloo releases the interpreter lock hangs, about once in 200 times.
    if num_workers and torch.distributed.is_initialized():
        time.sleep(0.05)


@atexit.register
def _end_all() -> None:
    """Kills the loader processes that an error has left: they ignore Python's signal to end."""
    if left := multiprocessing.active_children():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch takes a worker's death for a failure
        for process in left:
            process.kill()


def set_up_worker(worker: int) -> None:
    """Limits a loader process to one thread, and leaves the signals to the training process."""
    torch.set_num_threads(1)
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid is not None:  # a batch in the pipe would keep this process for ever
        end_with_parent(parent.pid)
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)
