"""Kill -9 at any moment and start again: the run must not know."""

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

import pytest

from tests.conftest import TINY
from tests.runs.test_train import assert_same_run, rows
from tests.support.in_process import tiryns_here
from tests.support.processes import SECONDS, children, killed_at_random, output, ranks_in, start, steps_done
from tests.support.processes.warm import NURSE
from tiryns.runner.run import audit
from tiryns.runner.run.folder import Run

LONGER = [
    *TINY, "trainer.validate_every=7", "checkpoint.every_steps=3", "model.dropout=0.1",
    "model.hidden_size=64", "resume=auto",
]  # fmt: skip


def only_run(outputs: Path) -> Run:
    folders = [path.parent for path in outputs.glob("*/*/status.json")]
    assert len(folders) == 1, folders
    return Run(folders[0])


def killed_and_restarted(
    arguments: list[str], cwd: Path, kills: int, draw: random.Random, devices: Sequence[int] = ()
) -> Run:
    """Runs to the end, killing the whole process group `kills` times, each time some steps further on.

    With `devices` each start takes the next number of them.
    """
    starts = cycle([[*arguments, f"trainer.devices={number}"] for number in devices] or [arguments])
    killed_at_random(lambda: start(next(starts), cwd), cwd, kills, draw, lambda: steps_done(cwd), 8)
    assert "continuing at step" in output(cwd), "no kill left a checkpoint to go on from"
    return only_run(cwd / "outputs")


def check(tmp_path: Path, text_file: Path, kills: int, devices: int, workers: int) -> None:
    steps = 8 * kills + 12  # a run that ends before its last kill would not be killed so often
    arguments = [*LONGER, f"data.source={text_file}", f"data.num_workers={workers}"]
    without_trace(arguments, tmp_path, steps, devices, kills)


def undisturbed(arguments: list[str], cwd: Path, devices: int) -> Run:
    """The run that nobody kills; of one process in this one, as nothing is done to it."""
    cwd.mkdir()
    if devices == 1:
        assert tiryns_here(cwd, *arguments).returncode == 0
    else:
        assert start(arguments, cwd).wait(timeout=SECONDS) == 0, output(cwd)
    return only_run(cwd / "outputs")


def without_trace(arguments: list[str], folder: Path, steps: int, devices: int, kills: int = 2) -> Run:
    """The run that nobody kills; fails where one that is killed so often differs from it by a bit."""
    words = [
        *arguments, f"trainer.devices={devices}", f"trainer.max_steps={steps}", "checkpoint.every_steps=3", "resume=auto",
    ]  # fmt: skip
    (folder / "killed").mkdir()
    whole = undisturbed(words, folder / "whole", devices)
    killed = killed_and_restarted(words, folder / "killed", kills, random.Random(kills * 10 + devices))
    assert_same_run(whole, killed, steps)
    return whole


def test_two_kills_leave_no_trace(tmp_path: Path, text_file: Path) -> None:
    check(tmp_path, text_file, kills=2, devices=1, workers=1)


def loader_processes(cwd: Path, process: subprocess.Popen[bytes]) -> list[int]:
    """Process ids of the loader processes of a run in `cwd`, which are forks of its ranks."""
    forks = []
    for reader in ranks_in(cwd).values() or [process.pid]:
        with contextlib.suppress(OSError):  # it has just ended
            line = Path(f"/proc/{reader}/cmdline").read_text()
            forks += [
                child
                for child in children(reader)
                if Path(f"/proc/{child}/cmdline").read_text() == line
                and Path(f"/proc/{child}/comm").read_text().strip() != NURSE
            ]
    return forks


def with_loaders_killed(arguments: list[str], cwd: Path, kills: int, draw: random.Random) -> Run:
    """A run to the end, of which a random loader process is killed at so many random moments."""
    process = start(arguments, cwd)
    for kill in range(kills):
        goal = steps_done(cwd) + draw.randint(1, 8)
        while steps_done(cwd) < goal or not (workers := loader_processes(cwd, process)):
            assert process.poll() is None, f"ended at kill {kill}: {output(cwd)}"
            time.sleep(0.01)
        time.sleep(draw.random() * 0.03)
        with contextlib.suppress(ProcessLookupError):
            os.kill(draw.choice(workers), signal.SIGKILL)
    assert process.wait(timeout=SECONDS) == 0, output(cwd)
    return only_run(cwd / "outputs")


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("workers", [1, 2])
def test_killed_loader_processes_leave_no_trace(
    tmp_path: Path, text_file: Path, devices: int, workers: int
) -> None:
    kills = 25
    arguments = [
        *LONGER, f"data.source={text_file}", f"data.num_workers={workers}", f"trainer.devices={devices}",
        f"trainer.max_steps={8 * kills + 16}", "trainer.validate_every=10", "checkpoint.every_steps=50",
    ]  # fmt: skip
    whole = undisturbed(arguments, tmp_path / "whole", devices)
    draw = random.Random(10 * devices + workers)
    killed = with_loaders_killed(arguments, tmp_path / "killed", kills, draw)
    assert "a loader process was killed" in (tmp_path / "killed" / "output.txt").read_text()
    assert audit.compare(whole.path, killed.path) is None
    assert rows(whole) == rows(killed)


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("workers", [0, 2])
def test_twenty_kills_leave_no_trace(tmp_path: Path, text_file: Path, devices: int, workers: int) -> None:
    check(tmp_path, text_file, kills=20, devices=devices, workers=workers)
