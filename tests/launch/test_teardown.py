"""A rank ends with its own exit status, whatever threads of libraries are still at work in it."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from lightning.pytorch import Callback
from omegaconf import OmegaConf

from tests.conftest import ROOT
from tests.support.processes import process, warm_process
from tiryns.runner.launch.rank import RANK_CONFIG, pack_config, run_rank
from tiryns.runner.run.folder import Run
from tiryns.runner.run.signals import COMMAND_PROCESS

ENDING = """
import atexit, sys
from tiryns.runner.run.command.lifetime import without_teardown
from tests.launch.test_teardown import StartThreads
StartThreads()
atexit.register(print, "exit function")
with without_teardown():
    print("work")
    sys.exit(75)
"""


class StartThreads(Callback):
    """Starts threads that want Python all the time, as gloo's do when they free tensors."""

    def __init__(self) -> None:
        def work() -> None:
            while True:
                torch.zeros(100).sum()

        for _ in range(2):
            threading.Thread(target=work, daemon=True).start()


@pytest.mark.slow
def test_process_ends_with_its_own_status() -> None:
    done = warm_process("-c", ENDING, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (75, "work\nexit function\n", "")


LAST_WORDS = [
    ("exit('why')", 1, "why\n"),
    ("exit()", 0, ""),
    ("raise ValueError('why')", 1, "ValueError: why\n"),
    ("threading.Thread(target=lambda: (time.sleep(1), print('why', file=sys.stderr))).start()", 0, "why\n"),
    ("ThreadPoolExecutor(1).submit(lambda: (time.sleep(1), print('why', file=sys.stderr)))", 0, "why\n"),
]


@pytest.mark.parametrize(("line", "status", "message"), LAST_WORDS)
def test_last_words_are_read(line: str, status: int, message: str) -> None:
    imports = "import sys, threading, time\nfrom concurrent.futures import ThreadPoolExecutor\n"
    plain = f"from tiryns.runner.run.command.lifetime import without_teardown\nwith without_teardown():\n    {line}"
    done = process("-c", imports + plain, cwd=ROOT)
    assert (done.returncode, done.stderr[-len(message) :]) == (status, message)


def test_rank_whose_agent_was_killed_before_it_began_ends(tmp_path: Path) -> None:
    config = pack_config(OmegaConf.create({"seed": 1}))

    def be_rank() -> None:
        os.setsid()
        os.environ |= {"RANK": "0", RANK_CONFIG: config, COMMAND_PROCESS: "4194305"}  # which no process has
        run_rank(tmp_path, lambda *_: {"ended": threading.Event().wait(60)})

    rank = multiprocessing.get_context("fork").Process(target=be_rank)
    rank.start()
    rank.join(30)
    status = rank.exitcode
    rank.kill()
    assert status == -signal.SIGKILL


HOLDER = """
import os, sys, time
from pathlib import Path
from tiryns.runner.run.folder import Run
with Run(Path(sys.argv[1])).lock():
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
def test_killed_run_is_free_though_a_worker_of_it_lives(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert Run(tmp_path).is_locked()
        holder.kill()
        holder.wait()
        with Run(tmp_path).lock(patience=30):  # the worker may not have begun yet; it lives for 60 s
            pass
    finally:
        os.killpg(holder.pid, signal.SIGKILL)
