"""The processes of a `DataLoader`, which torch 2.10 to 2.15 neither lists nor ends on request.

An iterator ends its processes when it is collected as garbage, and then waits 5 seconds for each that hangs
(`_MultiProcessingDataLoaderIter._shutdown_workers`). A process that was killed has left half a message in its queue, and
this method would wait for the rest for ever (pytorch/pytorch#1355 has the ways in which such processes die).
"""

import signal
import time
from collections.abc import Sequence
from multiprocessing import process as library
from typing import Any

from torch.utils.data._utils import signal_handling

SECONDS_TO_DIE = 5.0
"""How long killed processes are waited for: the system keeps one that reads from a dead file server."""


def running(loader: object) -> Any:
    """Returns the iterator of a loader that keeps its processes; None if it has none."""
    return getattr(loader, "_iterator", None)


def processes_of(batches: object) -> list[library.BaseProcess]:
    """Returns the processes of an iterator of torch, or of an iterator that has one as `_iterator`."""
    return getattr(_iterator_of(batches), "_workers", [])


def _iterator_of(batches: object) -> Any:
    return getattr(batches, "_iterator", batches)


def handler_of_deaths() -> Any:
    """Returns torch's handler of SIGCHLD, which it sets when the first processes start."""
    signal_handling._set_SIGCHLD_handler()
    return signal.getsignal(signal.SIGCHLD)


def take_over(batches: object) -> None:
    """Removes the processes behind batches from torch's list: its signal handler turns deaths in the list into errors."""
    iterator = _iterator_of(batches)
    if getattr(iterator, "_worker_pids_set", False):
        signal_handling._remove_worker_pids(id(iterator))
        iterator._worker_pids_set = False


def kill(batches: object) -> None:
    """Kills the loader processes of batches, and closes their queues without reading them."""
    take_over(batches)
    iterator = _iterator_of(batches)
    iterator._shutdown = True
    if pinning := getattr(iterator, "_pin_memory_thread_done_event", None):
        pinning.set()  # else the thread reads the queue for ever
    end_at_once(iterator._workers)
    for queue in [*iterator._index_queues, iterator._worker_result_queue]:
        queue.cancel_join_thread()
        queue.close()


def end_at_once(processes: Sequence[library.BaseProcess]) -> None:
    """Kills processes; those that are there after `SECONDS_TO_DIE` are forgotten, as Python would wait at its end."""
    for process in processes:
        process.kill()
    deadline = time.monotonic() + SECONDS_TO_DIE
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            library._children.discard(process)  # type: ignore[attr-defined]


def forget(loader: Any) -> None:
    """Lets a loader begin with a new iterator, as if it had not been read."""
    loader._iterator = None


def end(batches: object) -> None:
    """Ends the processes behind batches at once, if there are any."""
    if any(worker.exitcode for worker in processes_of(batches)):  # torch would wait for the dead
        kill(batches)
    elif processes_of(batches):
        _iterator_of(batches)._shutdown_workers()


def close(loader: object) -> None:
    """Ends the processes of a loader at once, if it has any."""
    if (iterator := running(loader)) is not None:
        end(iterator)
        forget(loader)
