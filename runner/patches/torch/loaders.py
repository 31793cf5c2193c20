"""The processes of a `DataLoader`, which torch 2.10 to 2.15 neither lists nor ends on request.

An iterator ends its processes when it is collected as garbage, and then waits 5 seconds for each that hangs
(`_MultiProcessingDataLoaderIter._shutdown_workers`). A process that was killed has left half a message in its queue, for
whose rest that would wait for ever (pytorch/pytorch#1355 has the ways in which they die).
"""

from typing import Any

import torch


def running(loader: Any) -> Any:
    """Returns the iterator of a loader that keeps its processes; None where there is none."""
    return getattr(loader, "_iterator", None)


def processes_of(iterator: Any) -> list[Any]:
    """Returns the processes behind an iterator of a loader."""
    return getattr(iterator, "_workers", [])


def kill(iterator: Any) -> None:
    """Kills the processes behind an iterator of a loader, and reads no queue of theirs any more."""
    iterator._shutdown = True
    torch._C._remove_worker_pids(id(iterator))
    for worker in iterator._workers:
        worker.kill()
        worker.join()
    for queue in [*iterator._index_queues, iterator._worker_result_queue]:
        queue.cancel_join_thread()
        queue.close()


def forget(loader: Any) -> None:
    """Lets a loader begin with a new iterator, as if it had not been read."""
    loader._iterator = None


def close(loader: Any) -> None:
    """Ends the processes of a loader at once, if it has any."""
    if (iterator := running(loader)) is not None:
        iterator._shutdown_workers()
        forget(loader)
