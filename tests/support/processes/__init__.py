"""Runs as processes of their own, to be sent signals to, and what is left of them."""

import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import cache
from glob import glob
from multiprocessing.connection import Connection
from pathlib import Path
from subprocess import Popen
from typing import Any

from tests.support.processes import warm
from tiryns.runner.run.command import lifetime

ROOT = Path(__file__).parents[3]

SECONDS = 1200
"""A run takes no longer."""

Done = subprocess.CompletedProcess[str]

PROGRAM = ("-c", lifetime.PROGRAM)
"""Arguments of Python that make it the command `tiryns`."""


def start(
    arguments: list[str],
    cwd: Path,
    stdout: int | None = None,
    module: str = "runner.train",
    **environment: str,
) -> subprocess.Popen[bytes]:
    """The program in a session of its own, with its output in `output.txt`; `stdout` may go elsewhere."""
    cwd.mkdir(exist_ok=True)
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    with open(cwd / "output.txt", "ab") as output:
        return WarmPopen(
            [sys.executable, "-m", module, *arguments],
            cwd=cwd, env=env, stdout=output if stdout is None else stdout, stderr=output,
            start_new_session=True,
        )  # fmt: skip


def process(*words: str, cwd: Path, timeout: Any = SECONDS, **environment: str) -> Done:
    """Runs Python with these arguments to its end, for at most so many seconds."""
    return _ended(Popen, words, cwd, timeout, environment)


def _ended(
    popen: type[Popen[Any]], words: tuple[str, ...], cwd: Path, timeout: Any, environment: dict[str, str]
) -> Done:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    none, pipe = subprocess.DEVNULL, subprocess.PIPE
    with popen(
        [sys.executable, *words], cwd=cwd, env=env, stdin=none, stdout=pipe, stderr=pipe, text=True
    ) as made:
        try:
            outputs = made.communicate(timeout=timeout)
        except BaseException:
            made.kill()
            raise
    return subprocess.CompletedProcess([*words], made.returncode, *outputs)


def steps_done(cwd: Path) -> int:
    """Steps in the order logs of the runs below `cwd`."""
    files = glob(
        "outputs/**/order.txt", root_dir=cwd, recursive=True
    )  # passes over folders that go meanwhile
    return sum(sum(1 for _ in open(cwd / file)) for file in files)


def killed_at_random(
    begin: Callable[[], Popen[Any]], cwd: Path, kills: int, draw: random.Random, progress: Callable[[], int],
    most: int, look: Callable[[], None] = lambda: None,
) -> None:  # fmt: skip
    """Runs what `begin` starts in `cwd` to its end, after so many SIGKILLs to its process group; looks after each.

    Each comes when `progress` has grown by 1 to `most`.
    """
    cwd.mkdir(exist_ok=True)
    for _ in range(kills):
        process, goal, deadline = begin(), progress() + draw.randint(1, most), time.monotonic() + 120
        while progress() < goal and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(draw.random() * 0.1)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        look()
    assert begin().wait(timeout=SECONDS) == 0, output(cwd)
    look()


def wait_for_steps(process: subprocess.Popen[bytes], cwd: Path, steps: int, seconds: float = SECONDS) -> None:
    """Returns when so many steps are done, and fails when the process ends before."""
    deadline = time.monotonic() + seconds
    while steps_done(cwd) < steps:
        assert process.poll() is None, (cwd / "output.txt").read_text()[-3000:]
        assert time.monotonic() < deadline, (cwd / "output.txt").read_text()[-3000:]
        time.sleep(0.02)


def output(cwd: Path) -> str:
    """What the command and its jobs have printed."""
    files = [cwd / "output.txt", *sorted(cwd.glob("outputs/**/*_log.*")), *sorted(cwd.glob("slurm-*.out"))]
    return "\n".join(f"--- {file.name}\n{file.read_text()}" for file in files if file.exists())


def wait_until(happened: Callable[[], Any], cwd: Path | None = None, seconds: float = SECONDS) -> Any:
    """What a function returns once it is true; fails after so many seconds, with what was printed in `cwd`."""
    deadline = time.monotonic() + seconds
    while not (found := happened()):
        assert time.monotonic() < deadline, output(cwd) if cwd else "waited in vain"
        time.sleep(0.05)
    return found


def children(parent: int) -> list[int]:
    """Process ids of the living processes that a process has started."""
    files = Path(f"/proc/{parent}/task").glob("*/children")
    return [int(child) for file in files for child in file.read_text().split()]


def lives(process: int) -> bool:
    """Whether a process runs; one that has ended may stay as a zombie, as this process inherits orphans."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def started_in(cwd: Path) -> list[str]:
    """Command lines of the living processes whose working directory is `cwd`."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (
                Path(os.readlink(folder / "cwd")) == cwd.resolve()
                and "Z" not in (folder / "stat").read_text().split()[2]
            ):
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def assert_nothing_left(cwd: Path, seconds: float = 60) -> None:
    """Fails where a process that was started in `cwd` is still alive after so many seconds."""
    wait_until(lambda: not started_in(cwd), cwd, seconds)


def ranks_in(cwd: Path) -> dict[int, int]:
    """Process ids of the living ranks, by rank, that agents in `cwd` have started."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if Path(os.readlink(folder / "cwd")) != cwd.resolve() or os.getsid(int(folder.name)) != int(
                folder.name
            ):
                continue
            name = (folder / "comm").read_text().strip().encode().replace(b"rank ", b"RANK=")
            words = [name, *(folder / "environ").read_bytes().split(b"\0")]  # that of a fork is not its own
            rank = next((word[5:] for word in words if word.startswith(b"RANK=")), None)
            if rank is not None and lives(int(folder.name)):
                found[int(rank)] = int(folder.name)
        except (OSError, ProcessLookupError):
            continue
    return found


def assert_workers_end_with_their_parent(read: Callable[[Connection], None]) -> None:
    """Fails where a process whose number `read` sends, in a process of its own, outlives that process's kill."""
    receiving, sending = multiprocessing.Pipe(duplex=False)
    reader = multiprocessing.get_context("fork").Process(target=read, args=(sending,))
    reader.start()
    sending.close()
    try:
        assert receiving.poll(60), "the reader has started no workers"
        workers = receiving.recv()
        assert len(workers) == 2
        assert all(map(lives, workers))
    finally:
        reader.kill()
        reader.join()
    wait_until(lambda: not any(map(lives, workers)))


_READY = "tests.support.processes.ready"
"""The module whose import does what each run would."""

_FIRST = threading.Lock()
"""Held while the nursery is made, which threads may ask for at once."""


class WarmPopen(Popen[Any]):
    """A `Popen` that forks Python from a process which has imported the program, as `warm` says."""

    def __init__(self, *args: Any, **options: Any) -> None:
        if not hasattr(WarmPopen, "nursery"):  # or `Popen` has one, of a process that was forked itself
            with _FIRST:
                nursery(WarmPopen)
        super().__init__(*args, **options)


@cache
def nursery(popen: type[Popen[Any]]) -> None:
    """Forks what `popen` starts from a new process that has imported the program; they are children of this process."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, str(Path(warm.__file__)), str(theirs.fileno()), _READY]
    Popen(command, pass_fds=[theirs.fileno()], env={**os.environ, "PYTHONPATH": str(ROOT)})
    theirs.close()
    warm.Nursery(ours).take_over(popen)


def be_test_process() -> None:
    """Where this process of pytest-xdist was forked, `Popen` starts new interpreters again, and Hydra is as it comes."""
    if forked := vars(Popen).get("nursery"):
        Popen._execute_child = forked.execute  # type: ignore[attr-defined]
        del Popen.nursery  # type: ignore[attr-defined]
        forked.take_over(WarmPopen)
        sys.modules[_READY].keeping.__exit__(None, None, None)


def warm_process(*words: str, cwd: Path, timeout: Any = SECONDS, **environment: str) -> Done:
    """`process` forked from a warm one, where what it imports is not what is tested."""
    return _ended(WarmPopen, words, cwd, timeout, environment)
