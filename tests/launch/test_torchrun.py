"""Agents of torchrun on several nodes: a rank dies, then a node, and the run goes on in its folder and its order."""

import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from torch.distributed import HashStore

from tests.conftest import ROOT
from tests.launch.test_agent import RUN, SLOWLY, STEPS, assert_same_curve
from tests.launch.test_kill import only_run
from tests.support.processes import SECONDS, children, output, ranks_in, start, wait_for_steps, wait_until
from tiryns.runner.launch.agreement import name_launch
from tiryns.runner.run.folder import Run

RENDEZVOUS = "--rdzv-conf=keep_alive_interval=1,keep_alive_max_attempt=10"
"""Of a busy machine: a node is lost after 10 seconds of silence."""


def names(store: HashStore, ranks: list[int]) -> set[str]:
    """The names that the ranks of one launch come to, where they start one after the other."""
    with ThreadPoolExecutor(len(ranks)) as pool:
        found = []
        for rank in ranks:
            found.append(pool.submit(name_launch, store, rank, len(ranks), 5.0))
            time.sleep(0.1)
        return {one.result() for one in found}


def test_ranks_of_one_launch_agree_and_those_of_the_next_do_not_take_the_old_name() -> None:
    store = HashStore()
    store.set("tiryns/launch/1", "the question of a rank that died")
    (first,), (second,) = names(store, [0, 1, 2]), names(store, [2, 1, 0])
    (smaller,) = names(store, [1, 0])
    assert len({first, second, smaller}) == 3


def test_rank_that_stays_alone_says_so() -> None:
    with pytest.raises(ValueError, match="rank 0 has waited 0 seconds for the other 1"):
        name_launch(HashStore(), 0, 2, patience=0.2)
    with pytest.raises(ValueError, match="rank 1 has waited 0 seconds for the other 1"):
        name_launch(HashStore(), 1, 2, patience=0.2)


def begin_node(words: list[str], cwd: Path, port: int, own_store: bool) -> subprocess.Popen[bytes]:
    """An agent of torchrun with one rank, as the documentation has it, on this machine."""
    torchrun = [
        sys.executable, "-m", "torch.distributed.run", "--nnodes=2" if own_store else "--nnodes=1:2",
        "--nproc-per-node=1", "--max-restarts=3",
        "--rdzv-id=one-run", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{port}", RENDEZVOUS, "--no-python",
        sys.executable, "-m", "runner.train",
    ]  # fmt: skip
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": str(int(own_store)),
    }
    with open(cwd / "output.txt", "ab") as output:
        return subprocess.Popen([*torchrun, *words], cwd=cwd, env=environment, stdout=output, stderr=output)


def answers(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("localhost", port)) == 0


@pytest.mark.slow
@pytest.mark.parametrize("comes_back", [False, True])
def test_rank_and_then_a_node_of_torchrun_are_lost_and_the_order_stays(
    text_file: Path, tmp_path: Path, comes_back: bool
) -> None:
    words = [
        *RUN, f"data.source={text_file}", *SLOWLY, "trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=1",
        "trainer.num_nodes=auto",
    ]  # fmt: skip
    whole, cwd = tmp_path / "whole", tmp_path / "disturbed"
    assert start([*words, "trainer.num_nodes=1"], whole).wait(timeout=SECONDS) == 0, output(whole)
    cwd.mkdir()
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    first = begin_node(words, cwd, port, comes_back)
    wait_until(lambda: answers(port), cwd)  # the first node holds the store at which the agents meet
    second = begin_node(words, cwd, port, comes_back)
    wait_for_steps(first, cwd, 6)
    killed = ranks_in(cwd)
    assert set(killed) == {0, 1}
    os.kill(killed[1], signal.SIGKILL)
    wait_until(lambda: set(ranks_in(cwd)) == {0, 1} and ranks_in(cwd)[1] != killed[1], cwd)
    wait_for_steps(first, cwd, STEPS - 6)
    for process in (*children(second.pid), second.pid):
        os.kill(process, signal.SIGKILL)
    second.wait()
    if comes_back:
        third = begin_node(words, cwd, port, comes_back)
        wait_until(lambda: set(ranks_in(cwd)) == {0, 1}, cwd)
    assert first.wait(timeout=SECONDS) == 0, output(cwd)
    run: Run = only_run(cwd / "outputs")
    assert_same_curve(run, only_run(whole / "outputs"))
    assert run.status["resolved"]["processes"] == 1 + comes_back
    if comes_back:
        third.wait(timeout=60)
