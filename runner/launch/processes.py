"""One fresh set of rank processes per job on this node, whatever started the job.

The launching process composes the config and holds the run folder; it joins no process group. Its ranks end with it: a
signal to it is passed on, so that they save; when it is killed, their standard input closes and they end.
"""

import atexit
import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from iolaus.runner.run import signals
from iolaus.runner.run.cluster import processes_per_node
from iolaus.runner.run.errors import TrainingFailure, explain, wants_traceback
from iolaus.runner.run.folder import RunFolder, editable
from iolaus.runner.run.redaction import know_secrets

LAUNCHED = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT",
    "PL_GLOBAL_SEED",
)  # fmt: skip
LAUNCHERS = ("SLURM_", "TORCHELASTIC_", "PMI")
"""Variables, and beginnings of theirs, that tell a process its rank: a fresh set of ranks must not inherit them."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of malloc.h

RANK_CONFIG = ".rank-config.yaml"
RANK_ERROR = ".rank-error"

SECONDS_TO_FOLLOW = 10.0
"""How long the other ranks may take to end by themselves after one has failed."""

SECONDS_TO_STOP = 120.0
"""The same after one has stopped on a signal, all having saved together."""

Train = Callable[[DictConfig, RunFolder], dict[str, float]]


def launch(config: DictConfig, folder: RunFolder, train: Train) -> dict[str, float]:
    """Trains in this process for one device, in fresh rank processes for several; returns the run's figures.

    Raises:
        TrainingFailure: a rank ended with an error; the message is its own.
        Stopped: a signal stopped the run; it is saved as far as it got.
        ValueError: the config asks for several nodes, which only srun or torchrun can start.
    """
    quiet_threads()
    num_processes = processes_per_node(config.trainer)
    if config.trainer.get("num_nodes", 1) > 1:
        raise ValueError(
            f"trainer.num_nodes={config.trainer.num_nodes} needs a process on every node: "
            "use -m hydra/launcher=slurm, or start this command with srun or torchrun"
        )
    if num_processes == 1:
        return train(config, folder)
    rank_config, rank_error = folder.path / RANK_CONFIG, folder.path / RANK_ERROR
    with open(os.open(rank_config, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(OmegaConf.to_yaml(editable(config)))
    rank_error.unlink(missing_ok=True)
    try:
        status = run_ranks(
            num_processes, [*same_modules(), "-m", "iolaus.runner.train", "--rank", str(folder.path)]
        )
    finally:
        rank_config.unlink(missing_ok=True)
    if status == signals.EXIT_PREEMPTED:
        raise signals.Stopped(signals.noted() or signal.SIGTERM)
    if status:
        ended = f"ended with exit status {status}"
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else ended
        message = left_error(folder.path) or "what it printed is above"
        raise TrainingFailure(f"a rank {how}: {message}")
    return dict(folder.status().get("results") or {})


def same_modules() -> list[str]:
    """The flag with which a new `python -m` finds modules where this process does: in the working folder, or not there.

    What lies beside a user's own configs, such as `datasets.py`, must not come before a library in the ranks alone.
    """
    return [] if {"", os.getcwd()} & set(sys.path) else ["-P"]


def run_ranks(count: int, arguments: list[str]) -> int:
    """Runs `python <arguments>` as `count` ranks; returns 0, or the exit status of the first one to fail.

    None of them, nor a process of theirs, is left when this returns or raises.
    """
    own = {name: value for name, value in os.environ.items() if name not in LAUNCHED}
    shared = {name: value for name, value in own.items() if not name.startswith(LAUNCHERS)}
    shared.setdefault("OMP_NUM_THREADS", str(max(1, _num_cores() // count)))
    command = [sys.executable, *arguments]
    start: Any = partial(subprocess.Popen, command, stdin=subprocess.PIPE, start_new_session=True)
    ranks: list[subprocess.Popen[bytes]] = []
    signals.defer(True)
    with reserved_port() as port:
        shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GROUP_RANK": "0"}
        shared |= {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
        try:
            for rank in range(count):
                environment = shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
                ranks.append(start(env=environment))
            return _wait(ranks)
        finally:
            for process in ranks:  # a rank's session holds its loader workers too
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _wait(ranks: list[subprocess.Popen[bytes]]) -> int:
    """Waits for the ranks, passing a stopping signal on to them once; the first bad exit status, or 0."""
    passed_on, first, deadline = False, 0, float("inf")
    while time.monotonic() < deadline:
        statuses = [process.poll() for process in ranks]
        if signals.noted() is not None and not passed_on:
            for process in ranks:
                process.send_signal(signal.SIGTERM)
            passed_on = True
        bad = [status for status in statuses if status]
        if bad and not first:
            saved = bad[0] == signals.EXIT_PREEMPTED
            deadline = time.monotonic() + (SECONDS_TO_STOP if saved else SECONDS_TO_FOLLOW)
            # a rank that has not got as far as handling signals is ended by them
            ended = bad[0] == signals.EXIT_UNSAVED or (passed_on and bad[0] == -signal.SIGTERM)
            first = signals.EXIT_PREEMPTED if ended else bad[0]
        if None not in statuses:
            break
        time.sleep(0.05)
    return first


@contextlib.contextmanager
def reserved_port() -> Any:
    """A free port on loopback that nothing else is given while the first rank has yet to listen on it."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def run_rank(folder: Path, train: Train) -> None:
    """This process as a rank: it leaves Ctrl-C to the launching process and does not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def end_with_parent() -> None:
        os.read(0, 1)  # returns when the launching process is gone
        (folder / RANK_CONFIG).unlink(missing_ok=True)  # which holds what is secret
        os.killpg(os.getpgid(0), signal.SIGKILL)

    threading.Thread(target=end_with_parent, daemon=True).start()
    with signals.stoppable():
        try:
            config = OmegaConf.load(folder / RANK_CONFIG)
            assert isinstance(config, DictConfig)
            know_secrets(config)
            train(config, RunFolder(folder))
        except signals.Stopped as stopped:
            sys.exit(signals.EXIT_PREEMPTED if stopped.saved else signals.EXIT_UNSAVED)
        except Exception as error:
            message = explain(error)
            if message is None or wants_traceback():
                raise
            leave_error(folder, message)
            sys.exit(1)


@contextlib.contextmanager
def without_teardown() -> Iterator[None]:
    """Ends this process after the block, by its exit functions but without Python's teardown.

    A thread of a library that wants Python then, such as gloo's when it frees a tensor, aborts the whole process.
    """
    status = 0
    try:
        yield
    except SystemExit as ended:
        if not isinstance(ended.code, int):
            raise
        status = ended.code
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def leave_error(folder: Path, message: str) -> None:
    """Leaves a rank's message for the launching process to show; the first rank to fail has the word."""
    with contextlib.suppress(FileExistsError), open(folder / RANK_ERROR, "x") as file:
        file.write(message)


def left_error(folder: Path) -> str | None:
    """The message that a rank has left, if any."""
    file = folder / RANK_ERROR
    return file.read_text() if file.exists() else None


def quiet_threads() -> None:
    """Lets idle OpenMP threads sleep: on a busy machine spinning ones cost up to a factor of 8.

    Takes effect where torch is not imported yet; what the user has set stays.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")


def _num_cores() -> int:
    """Cores that this process may use; a job often has a part of the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def keep_freed_memory() -> None:
    """Has glibc keep what is freed: tensors of a step's size come and go, and giving them back costs page faults.

    What the user has set in the environment stays; elsewhere nothing happens.
    """
    if "GLIBC_TUNABLES" in os.environ or any(name.startswith("MALLOC_") for name in os.environ):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
        mallopt(_M_MMAP_THRESHOLD, 2**30)
