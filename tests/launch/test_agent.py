"""Ranks that are killed, hang or lose their node are replaced, and neither the order nor the losses know of it."""

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from socket import gethostname

import pytest

from tests.conftest import TINY
from tests.launch.test_kill import only_run
from tests.runs.test_train import assert_bitwise, losses, weights
from tests.support.processes import (
    SECONDS,
    assert_nothing_left,
    output,
    ranks_in,
    start,
    steps_done,
    wait_for_steps,
    wait_until,
)
from tiryns.runner.manifest.inputs import read_manifest
from tiryns.runner.manifest.steps import FILE_NAME as DIGESTS
from tiryns.runner.run import audit
from tiryns.runner.run.folder import Run

STEPS = 22
RUN = [*TINY, f"trainer.max_steps={STEPS}", "trainer.validate_every=0", "model.dropout=0.1", "checkpoint.every_steps=4",
       "callback.manifest.every=6", "trainer.precision=32-true"]  # fmt: skip
SLOWLY = ["allowed_targets=[tests]", "+callback.nap={_target_: tests.slurm.nap.Nap, seconds: 0.1}"]


@pytest.fixture(scope="module")
def arguments(text_file: Path) -> list[str]:
    return [*RUN, f"data.source={text_file}"]


@pytest.fixture(scope="module")
def undisturbed(arguments: list[str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run of two ranks that nobody disturbs."""
    cwd = tmp_path_factory.mktemp("whole")
    assert start([*arguments, *SLOWLY, "trainer.devices=2"], cwd).wait(timeout=SECONDS) == 0, output(cwd)
    return only_run(cwd / "outputs")


def assert_same_curve(run: Run, whole: Run) -> None:
    """The order is equal, and the losses are to rounding: the number of ranks may have changed."""
    assert run.status["state"] == "done", run.status
    assert audit.compare(whole.path, run.path) is None
    ours, theirs = losses(run), losses(whole)
    assert ours.keys() == theirs.keys()
    assert [ours[step] for step in ours] == pytest.approx([theirs[step] for step in ours], rel=1e-5)


def assert_clean(run: Run, cwd: Path) -> None:
    assert_nothing_left(cwd)
    assert {file.name for file in run.path.rglob(".*")} == {".lock"}


def test_rank_that_is_killed_and_rank_that_hangs_are_replaced(
    arguments: list[str], undisturbed: Run, tmp_path: Path
) -> None:
    process = start(
        [*arguments, *SLOWLY, "trainer.devices=2", "trainer.timeout=8", "data.num_workers=1"], tmp_path
    )
    wait_for_steps(process, tmp_path, 6)
    os.kill(ranks_in(tmp_path)[1], signal.SIGKILL)
    wait_for_steps(process, tmp_path, 14)
    os.kill(ranks_in(tmp_path)[0], signal.SIGSTOP)
    run = only_run(tmp_path / "outputs")
    (run.path / ".status.json.4194305.4194305.tmp").touch()  # as a rank that is killed while it writes
    assert process.wait(timeout=SECONDS) == 0, output(tmp_path)
    assert_same_curve(run, undisturbed)
    assert_bitwise(weights(undisturbed, STEPS), weights(run, STEPS))
    assert_clean(run, tmp_path)
    assert (run.path / DIGESTS).read_text() == (undisturbed.path / DIGESTS).read_text()
    assert [one["restart_of_ranks"] for one in read_manifest(run.path)["sessions"]] == [0, 1, 2]
    text = output(tmp_path)
    assert "other than those of rank 0" not in text
    assert f"rank 1 on {gethostname()} was killed by SIGKILL; restart 1 of 3, from step " in text
    assert "made no progress" in text
    assert "restart 2 of 3, from step " in text
    assert len(run.status["restarts"]) == 2
    assert "Thread 0x" in (run.path / "train.log").read_text(), "the stacks of the rank that waited"


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1, None])
def test_terminated_run_with_a_rank_that_hangs_or_a_slow_disk_ends_in_time(
    arguments: list[str], tmp_path: Path, victim: int | None
) -> None:
    slow = "+callback.slow={_target_: tests.support.callbacks.SlowDisk, seconds: 5}"
    words = [*arguments, *SLOWLY, "trainer.devices=2"]
    process = start(words if victim is not None else [*words, slow], tmp_path)
    wait_for_steps(process, tmp_path, 10)
    if victim is None:
        wait_until_it_saves(tmp_path)
    else:
        os.kill(ranks_in(tmp_path)[victim], signal.SIGSTOP)
        time.sleep(1)  # the other rank waits for it now
    process.terminate()
    assert process.wait(timeout=25) == 75, output(tmp_path)
    run = only_run(tmp_path / "outputs")
    assert (run.status["state"], run.status["step"] >= 8) == ("preempted", True)
    if victim is None:
        assert audit.length(run.path) == run.status["step"], "the last step is saved"
    assert "go on with: tiryns resume=" in output(tmp_path)
    assert_clean(run, tmp_path)


@pytest.mark.slow
def test_nodes_come_and_go_and_the_order_stays(
    arguments: list[str], undisturbed: Run, tmp_path: Path
) -> None:
    gates = tmp_path / "gates"
    gates.mkdir()
    gate = f"+callback.gate={{_target_: tests.support.callbacks.Gate, folder: {gates}, steps: [6, 18]}}"
    words = [*arguments, "allowed_targets=[tests]", gate, "trainer.num_nodes=1:2", "trainer.max_restarts=9"]
    first = start(words, tmp_path)
    wait_for_steps(first, tmp_path, 6)
    second = start(words, tmp_path)  # finds the run of the first in the outputs they share
    wait_for_steps(first, tmp_path, 18)
    assert set(ranks_in(tmp_path)) == {0, 1}
    first.kill()  # the one that held the run folder
    (gates / "18").touch()
    assert second.wait(timeout=SECONDS) == 0, output(tmp_path)
    run = only_run(tmp_path / "outputs")
    assert_same_curve(run, undisturbed)
    assert_clean(run, tmp_path)
    assert "another node joins" in (tmp_path / "output.txt").read_text()


DEEDS = (
    "kill a rank", "kill a rank that saves", "stop a rank", "kill an agent", "kill an agent that saves",
    "end an agent", "add an agent",
)  # fmt: skip


def wait_until_it_saves(cwd: Path, seconds: float = 10) -> None:
    """Returns in the middle of a checkpoint, or after so many seconds."""
    checkpoints, deadline = next(cwd.glob("outputs/*/*/checkpoints")), time.monotonic() + seconds
    while time.monotonic() < deadline and not any(name.endswith("tmp") for name in os.listdir(checkpoints)):
        pass


def disturb(
    agents: list[subprocess.Popen[bytes]], begin: Callable[[], None], cwd: Path, draw: random.Random
) -> str:
    """Kills, stops, removes or adds a rank or an agent."""
    deed, ranks = draw.choice(DEEDS), ranks_in(cwd)
    living = [agent.pid for agent in agents if agent.poll() is None]
    if deed == "add an agent":
        if len(living) < 3:
            begin()
        return deed
    victims = (
        living if "an agent" in deed else [ranks[0]] if "saves" in deed and 0 in ranks else [*ranks.values()]
    )
    how = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "end": signal.SIGTERM}[deed.split()[0]]
    if "saves" in deed:
        wait_until_it_saves(cwd)
    with contextlib.suppress(ProcessLookupError, IndexError):  # between two sets of ranks there is none
        os.kill(draw.choice(victims), how)
    if "an agent" in deed:
        begin()
    return deed


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_ten_disturbances_leave_no_trace(arguments: list[str], tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    words = [
        *arguments, *SLOWLY, "trainer.num_nodes=1:3", "trainer.max_restarts=99", "trainer.timeout=5",
        "trainer.max_steps=300", "checkpoint.every_steps=2", "optimizer.lr=0.0003",
    ]  # fmt: skip
    (tmp_path / "whole").mkdir()
    assert start([*words, "trainer.num_nodes=1"], tmp_path / "whole").wait(timeout=SECONDS) == 0
    cwd = tmp_path / "disturbed"
    cwd.mkdir()
    agents: list[subprocess.Popen[bytes]] = []

    def begin() -> None:
        agents.append(start([*words, "resume=auto"], cwd))

    begin()
    begin()
    deeds: list[str] = []
    while len(deeds) < 10:
        reached = steps_done(cwd) + draw.randint(8, 20)
        wait_until(lambda reached=reached: steps_done(cwd) >= reached, cwd)  # type: ignore[misc]
        time.sleep(draw.random() * 0.2)
        deeds.append(disturb(agents, begin, cwd, draw))
    for agent in agents:
        assert agent.wait(timeout=SECONDS) in (0, 75, -signal.SIGKILL), (deeds, output(cwd))
    run = only_run(cwd / "outputs")
    assert_same_curve(run, only_run(tmp_path / "whole" / "outputs"))
    assert_clean(run, cwd)
