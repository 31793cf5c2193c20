"""Loader processes that are killed are replaced, with the same batches, and end with the process that reads them."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from tests.support.processes import assert_workers_end_with_their_parent, children
from tiryns.runner.data.workers import StepLoader, StepSampler, WorkerLoader, begun
from tiryns.runner.loaders.passes import Passes, PassLoader
from tiryns.runner.patches.torch import loaders

LARGE = 300_000
"""Numbers in a batch: more than a pipe holds, so that a killed process leaves half a batch there."""


class Batches(Dataset[Any]):
    """Batch k holds k; the process that makes batch `deadly` is killed, as often as files say it may be."""

    def __init__(self, deadly: int = -1, marks: Path | None = None, deaths: int = 1) -> None:
        self.deadly, self.marks, self.deaths = deadly, marks, deaths

    def __getitem__(self, step: int) -> Any:
        if step == self.deadly and self.marks and len(list(self.marks.iterdir())) < self.deaths:
            (self.marks / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.from_numpy(np.full(LARGE, step))


def loader(batches: Batches, workers: int = 2) -> StepLoader:
    prefetched = {"prefetch_factor": 2} if workers else {}
    return StepLoader(batches, num_workers=workers, sampler=StepSampler(3, 20), **prefetched)


@pytest.mark.rows(1)
@pytest.mark.parametrize("workers", [2, 1])
def test_killed_process_is_replaced_and_no_batch_is_lost_or_doubled(tmp_path: Path, workers: int) -> None:
    read = [int(batch[0]) for batch in loader(Batches(9, tmp_path), workers)]
    assert read == list(range(3, 20))
    assert len(list(tmp_path.iterdir())) == 1, "one was killed"


@pytest.mark.slow
def test_batches_without_steps_are_not_read_twice_where_a_process_is_killed(tmp_path: Path) -> None:
    batches = WorkerLoader(Batches(2, tmp_path), 1, sampler=range(5))
    assert [int(batch[0]) for batch in batches] == list(range(5))
    assert len(list(tmp_path.iterdir())) == 1, "one was killed"


def test_process_that_no_signal_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that pins memory ends too. Torch starts one only beside a GPU; the event is what it looks at."""
    batches = begun(lambda: loader(Batches()).begun_at(3)[0], 2)
    batches._pin_memory_thread_done_event = threading.Event()
    workers = loaders.processes_of(batches)
    with monkeypatch.context() as patch:
        patch.setattr(BaseProcess, "kill", lambda _: None)  # as in input that cannot be interrupted
        patch.setattr(loaders, "SECONDS_TO_DIE", 0.1)
        loaders.kill(batches)
    assert batches._pin_memory_thread_done_event.is_set()
    assert not {*workers} & {*multiprocessing.active_children()}, "nor at the end of Python"
    for worker in workers:
        worker.kill()
        worker.join()


@pytest.mark.slow
def test_death_belongs_to_the_loader_of_the_process_whichever_is_read() -> None:
    """Validation while the training loader's process dies, with processes of its own and without."""
    others = {*children(os.getpid())}  # of tests before
    training = iter(loader(Batches(), 1))
    read = [int(next(training)[0]) for _ in range(3)]
    for number in (0, 1):
        (worker,) = {*children(os.getpid())} - others
        os.kill(worker, signal.SIGKILL)
        assert [int(batch[0]) for batch in loader(Batches(), number)] == list(range(3, 20))
        read += [int(next(training)[0]) for _ in range(3)]
    assert read + [int(batch[0]) for batch in training] == list(range(3, 20))


class Pass(Passes):
    """Batch k holds k; the process that makes batch `deadly` is killed once."""

    marks: Path
    deadly = 4

    def batches(self, mine: Callable[[int], bool]) -> Iterator[Any]:
        """The numbers of 9 batches that are `mine`."""
        for number in filter(mine, range(9)):
            if number == self.deadly and not self.marks.exists():
                self.marks.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield number


@pytest.mark.slow
@pytest.mark.rows(1)
@pytest.mark.parametrize("can_skip", [True, False])
def test_pass_whose_process_is_killed_goes_on(tmp_path: Path, can_skip: bool) -> None:
    passes = Pass(collator=None, batch_size=1, seed=0, stream=0, rank=0, num_ranks=1)
    passes.marks, passes.can_skip = tmp_path / "mark", can_skip
    batches = PassLoader(passes, 2, start=2)
    assert list(batches) == list(range(2, 9))
    assert passes.marks.exists()
    assert batches.following == (1, 0)


@pytest.mark.slow
def test_process_killed_again_at_the_same_batch_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"a loader process was killed, 3 times before step \d+"):
        for _ in loader(Batches(9, tmp_path, deaths=9), 1):
            pass


def test_error_in_a_loader_process_is_not_taken_for_its_death() -> None:
    class Failing(Batches):
        def __getitem__(self, step: int) -> Any:
            raise RuntimeError("no such document")

    before = multiprocessing.active_children()
    with pytest.raises(RuntimeError, match="no such document"):
        list(loader(Failing()))
    assert multiprocessing.active_children() == before, "nothing is left to whoever collects garbage"


@pytest.mark.slow
def test_loader_processes_end_when_their_parent_is_killed() -> None:
    def read(started: Any) -> None:
        batches = iter(loader(Batches()))
        next(batches)
        started.send([process.pid for process in multiprocessing.active_children()])
        time.sleep(60)

    assert_workers_end_with_their_parent(read)
