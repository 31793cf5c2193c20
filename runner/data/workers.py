"""Loader processes: how they start, serialize batches, end with their parent, and are replaced where they were killed."""

import atexit
import multiprocessing
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from multiprocessing.reduction import ForkingPickler
from pickle import UnpicklingError
from types import FrameType
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.multiprocessing.reductions import reduce_tensor
from torch.utils.data import DataLoader, Dataset, Sampler, get_worker_info

from tiryns.runner import log
from tiryns.runner.patches.torch import loaders
from tiryns.runner.run.command.lifetime import end_with_parent
from tiryns.runner.run.signals import STOPPING

T = TypeVar("T")

LARGE = 1 << 20
"""Bytes of a tensor from which shared memory is faster than pickling."""


class SerializedBatch:
    """A batch as bytes; it is unpickled as the batch itself."""

    def __init__(self, batch: object) -> None:
        content = BytesIO()
        pickler: Any = ForkingPickler(content, pickle.HIGHEST_PROTOCOL)
        pickler.dispatch_table = {**pickler.dispatch_table, Tensor: _reduce}
        pickler.dump(batch)
        self.content = content.getvalue()

    def __reduce__(self) -> tuple[Callable[[bytes], object], tuple[bytes]]:
        return pickle.loads, (self.content,)


def serialize_batch(batch: T) -> T | SerializedBatch:
    """Returns the batch: in a loader process a `SerializedBatch`, in the training process the batch itself."""
    return batch if get_worker_info() is None else SerializedBatch(batch)


def _reduce(tensor: Tensor) -> Any:
    if tensor.nbytes >= LARGE or tensor.dtype == torch.bfloat16:  # which NumPy does not know
        return reduce_tensor(tensor)
    return torch.from_numpy, (tensor.numpy(),)


END = object()
"""Marks the end: `fetch` returns it after the last batch."""

KILLED = "a loader process was killed"

DEATHS_AT_ONE_BATCH = 3

SECONDS_TO_HEAR_OF_DEATH = 0.5


class WorkerLoader(DataLoader[Any]):
    """Loads whole batches; loader processes that the system has killed are replaced.

    A batch is a function of its number, so new processes go on where the old ones were.

    Raises:
        RuntimeError: loader processes are killed three times before the same batch, or fail by themselves.
    """

    unit = "batch"

    def __init__(self, dataset: Dataset[Any], num_workers: int, **options: object) -> None:
        defaults: dict[str, Any] = {"batch_size": None, "collate_fn": serialize_batch}
        if num_workers:
            defaults |= {"worker_init_fn": set_up_worker, "prefetch_factor": 4}
        super().__init__(dataset, num_workers=num_workers, **{**defaults, **options})

    def __iter__(self) -> Any:
        return replacing(self.begun_at, 0, self.unit)

    def begun_at(self, number: int) -> tuple[Any, int]:
        """Starts new processes; returns their batches, and how many of these come before batch `number`."""
        return begun(super().__iter__, self.num_workers), number


class StepSampler(Sampler[int]):
    """Yields the steps from `start` to `stop` - 1. Its length is `stop`, as Lightning counts the earlier steps too."""

    def __init__(self, start: int, stop: int) -> None:
        self.start, self.stop = start, stop

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.stop))

    def __len__(self) -> int:
        return self.stop


class StepLoader(WorkerLoader):
    """Loads the batches of a `StepSampler`.

    Example:
        >>> loader = StepLoader(range(8), num_workers=0, sampler=StepSampler(2, 5))
        >>> list(loader)
        [2, 3, 4]
    """

    unit = "step"
    sampler: StepSampler

    def __iter__(self) -> Any:
        return replacing(self.begun_at, self.sampler.start, self.unit)

    def begun_at(self, number: int) -> tuple[Any, int]:
        """Starts new processes; returns their batches from step `number` on, and 0, as no batch comes before it."""
        began, self.sampler.start = self.sampler.start, number
        try:
            return super().begun_at(number)[0], 0
        finally:
            self.sampler.start = began


class WorkerDeath(RuntimeError):
    """A loader process was killed.

    Example:
        >>> raise WorkerDeath("a loader process was killed")
        Traceback (most recent call last):
        tiryns.runner.data.workers.WorkerDeath: a loader process was killed
    """


def replacing(begin: Callable[[int], tuple[Iterator[T], int]], first: int, unit: str) -> Iterator[T]:
    """Returns the batches of `begin(first)`, whose processes start now. If some are killed, new processes continue.

    `begin(n)` returns batches, and how many of them come before batch n. `unit` is the word for a batch in messages.
    """
    return _yield_batches(begin, first, unit, *begin(first))


def _yield_batches(
    begin: Callable[[int], tuple[Iterator[T], int]], number: int, unit: str, batches: Iterator[T], ahead: int
) -> Iterator[T]:
    deaths, last_death = 0, -1
    while True:
        try:
            for _ in range(ahead):
                fetch(batches)
            while (batch := fetch(batches)) is not END:
                yield batch
                number += 1
            return
        except WorkerDeath as death:
            deaths, last_death = deaths + 1 if last_death == number else 1, number
            if deaths == DEATHS_AT_ONE_BATCH:
                raise RuntimeError(
                    f"{death}, {deaths} times before {unit} {number + 1}; is there memory for data.num_workers?"
                ) from death
            log.warning("%s; new processes continue at %s %d", death, unit, number + 1)
        except Exception:
            loaders.end(
                batches
            )  # torch would wait 10 seconds for each process where it is garbage with its queue
            raise
        finally:
            if was_killed(batches):  # torch would wait for the dead
                loaders.kill(batches)
        batches, ahead = begin(number)


def fetch(batches: Iterator[object]) -> Any:
    """Returns the next batch, or `END`.

    Raises:
        WorkerDeath: a loader process of these batches was killed.
    """
    return ask(batches, lambda: next(batches, END))


def ask(batches: object, answer: Callable[[], T]) -> T:
    """Returns the result of `answer`, a function that waits for the loader processes of `batches`.

    Raises:
        WorkerDeath: one of them was killed.
    """
    if threading.current_thread() is threading.main_thread():
        watch.batches = batches
    try:
        if was_killed(batches):
            raise WorkerDeath(KILLED)
        return answer()
    except WorkerDeath:
        raise
    except (RuntimeError, OSError, EOFError, UnpicklingError) as error:  # of half a message
        watch.batches = None
        deadline = time.monotonic() + SECONDS_TO_HEAR_OF_DEATH
        while not was_killed(batches):
            if not loaders.processes_of(batches) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        raise WorkerDeath(KILLED) from error
    finally:
        watch.batches = None


def was_killed(batches: object) -> bool:
    """Returns whether a signal has ended a loader process of `batches`, as far as the system has reported."""
    return any((worker.exitcode or 0) < 0 for worker in loaders.processes_of(batches))


class Watch:
    """Raises WorkerDeath for a dead loader process only while the main thread waits for the process's batches.

    Torch's handler of SIGCHLD raises an error at once when a process of any loader dies: perhaps at a point where
    training cannot continue after an error, or while another loader is read.
    """

    batches: object = None
    """The batches that the main thread waits for."""
    starting = False
    """Whether processes are being started; deaths in the meantime are noticed when the batches are read."""
    _listens = False

    def listen(self) -> None:
        """Installs a handler of SIGCHLD, which also calls torch's handler for the loaders of other code."""
        if self._listens or threading.current_thread() is not threading.main_thread():
            return
        self._listens, of_torch = True, loaders.handler_of_deaths()

        def handle(number: int, frame: FrameType | None) -> None:
            if self.starting:
                return
            of_torch(number, frame)
            if self.batches is not None and was_killed(self.batches):
                self.batches = None
                raise WorkerDeath(KILLED)

        signal.signal(signal.SIGCHLD, handle)


watch = Watch()


def begun(iterate: Callable[[], T], num_workers: int) -> T:
    """Starts loader processes by `iterate`, and returns the iterator of their batches for `fetch`."""
    if not num_workers:
        return iterate()
    wait_before_fork(num_workers)
    watch.listen()
    watch.starting = True
    try:
        batches = iterate()
    finally:
        watch.starting = False
    loaders.take_over(batches)
    return batches


def wait_before_fork(num_workers: int) -> None:
    """Waits until a fork is safe; returns at once if no process will be forked."""
    # A worker that is forked while a thread of gloo releases the interpreter lock hangs, about once in 200 times.
    if num_workers and torch.distributed.is_initialized():
        time.sleep(0.05)


@atexit.register
def _end_all() -> None:
    """Kills the loader processes that an error has left: they ignore Python's signal to end."""
    if processes := multiprocessing.active_children():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch takes a worker's death for a failure
        loaders.end_at_once(processes)


def set_up_worker(worker: int) -> None:
    """Limits a loader process to one thread, and leaves the signals to the training process."""
    torch.set_num_threads(1)
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid is not None:  # a batch in the pipe would keep this process for ever
        end_with_parent(parent.pid)
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # the processes of a loader are not this one's children
