"""Loader processes that are killed are replaced, with the same batches, and end with the process that reads them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from tests.conftest import ROOT
from tiryns.runner.data.workers import StepLoader, StepSampler

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
    return StepLoader(batches, num_workers=workers, sampler=StepSampler(3, 20), prefetch_factor=2)


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_process_is_replaced_and_no_batch_is_lost_or_doubled(tmp_path: Path, workers: int) -> None:
    read = [int(batch[0]) for batch in loader(Batches(9, tmp_path), workers)]
    assert read == list(range(3, 20))
    assert len(list(tmp_path.iterdir())) == 1, "one was killed"


def test_process_killed_from_outside_while_training_works(tmp_path: Path) -> None:
    batches, read, child = loader(Batches()), [], f"/proc/{os.getpid()}/task/{os.getpid()}/children"
    for batch in batches:
        read.append(int(batch[0]))
        if len(read) in (2, 7):
            workers = [int(p) for p in Path(child).read_text().split()]
            os.kill(workers[-1], signal.SIGKILL)
            time.sleep(0.3)  # the signal arrives here, where training would be at work
    assert read == list(range(3, 20))


def test_process_killed_again_at_the_same_batch_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"a loader process was killed, twice before step \d+"):
        for _ in loader(Batches(9, tmp_path, deaths=9), 1):
            pass


def test_error_in_a_loader_process_is_not_taken_for_its_death() -> None:
    class Failing(Batches):
        def __getitem__(self, step: int) -> Any:
            raise RuntimeError("no such document")

    with pytest.raises(RuntimeError, match="no such document"):
        list(loader(Failing()))


READER = """
import sys
from tests.data.test_workers import Batches, loader
for batch in loader(Batches()):
    print("reading", flush=True)
    sys.stdin.read()
"""


def test_loader_processes_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", READER], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    workers = [int(p) for p in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    assert len(workers) == 2
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < deadline, "a loader process is left"
        time.sleep(0.1)
