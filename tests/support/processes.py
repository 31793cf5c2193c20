"""Runs as processes of their own, to be sent signals to, and what is left of them."""

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

PROGRAM = ("-c", "from tiryns.runner.cli.commands import main; main()")
"""Arguments of Python that make it the command `tiryns`."""


def start(
    arguments: list[str], cwd: Path, stdout: int | None = None, **environment: str
) -> subprocess.Popen[bytes]:
    """The program in a session of its own, with its output in `output.txt`; `stdout` may go elsewhere."""
    cwd.mkdir(exist_ok=True)
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    with open(cwd / "output.txt", "ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "runner.train", *arguments],
            cwd=cwd, env=env, stdout=output if stdout is None else stdout, stderr=output,
            start_new_session=True,
        )  # fmt: skip


def process(
    *words: str, cwd: Path, timeout: Any = 300, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs Python with these arguments to its end, for at most so many seconds."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, *words]
    return subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=timeout
    )


def steps_done(cwd: Path) -> int:
    """Steps in the order logs of the runs below `cwd`."""
    return sum(sum(1 for _ in open(file)) for file in cwd.glob("outputs/**/order.txt"))


def killed_at_random(
    words: list[str], cwd: Path, kills: int, draw: random.Random, look: Callable[[], None]
) -> None:
    """Runs a command to its end in `cwd`, after so many SIGKILLs to its process group; looks after each of them.

    Each comes when the command has left some more steps or files in `outputs`.
    """

    def traces() -> int:
        return steps_done(cwd) + sum(len(names) for _, _, names in os.walk(cwd / "outputs"))

    def begin() -> subprocess.Popen[bytes]:
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, *PROGRAM, *words]
        with open(cwd / "output.txt", "ab") as output:
            return subprocess.Popen(
                command, cwd=cwd, env=env, stdout=output, stderr=output, start_new_session=True
            )

    cwd.mkdir(exist_ok=True)
    for _ in range(kills):
        process, goal, deadline = begin(), traces() + draw.randint(1, 25), time.monotonic() + 120
        while traces() < goal and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(draw.random() * 0.3)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        look()
    assert begin().wait(timeout=900) == 0, (cwd / "output.txt").read_text()[-3000:]
    look()


def wait_for_steps(process: subprocess.Popen[bytes], cwd: Path, steps: int) -> None:
    """Returns when so many steps are done, and fails when the process ends before."""
    deadline = time.monotonic() + 240
    while steps_done(cwd) < steps:
        assert process.poll() is None, (cwd / "output.txt").read_text()[-3000:]
        assert time.monotonic() < deadline, (cwd / "output.txt").read_text()[-3000:]
        time.sleep(0.02)


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


def assert_nothing_left(cwd: Path, seconds: float = 10) -> None:
    """Fails where a process that was started in `cwd` is still alive after so many seconds."""
    deadline = time.monotonic() + seconds
    while left := started_in(cwd):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def ranks_in(cwd: Path) -> dict[int, int]:
    """Process ids of the living ranks, by rank, that agents in `cwd` have started."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if Path(os.readlink(folder / "cwd")) != cwd.resolve() or os.getsid(int(folder.name)) != int(
                folder.name
            ):
                continue
            words = (folder / "environ").read_bytes().split(b"\0")
            rank = next((word[5:] for word in words if word.startswith(b"RANK=")), None)
            if rank is not None and "Z" not in (folder / "stat").read_text().split()[2]:
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
        assert all(Path(f"/proc/{worker}").exists() for worker in workers)
    finally:
        reader.kill()
        reader.join()
    deadline = time.monotonic() + 10
    while left := [worker for worker in workers if Path(f"/proc/{worker}").exists()]:
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


_LIBRARIES = (
    "hydra",
    "torch._dynamo",
    "lightning.pytorch",
    "transformers.modeling_utils",
    "transformers.models.auto",
)
"""What each run imports."""

_SERVER = """
import gc, importlib, json, os, runpy, signal, sys

gc.disable()
for name in sys.argv[1:]:
    importlib.import_module(name)
gc.freeze()
gc.enable()
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
signal.alarm(300)
for number, path in enumerate([os.devnull, *asked["outputs"]]):
    file = os.open(path, os.O_WRONLY | os.O_CREAT if number else os.O_RDONLY)
    os.dup2(file, number)
    os.close(file)
os.chdir(asked["cwd"])
os.environ.clear()
os.environ.update(asked["environment"])
sys.argv[1:] = asked["arguments"]
sys.path[:1] = [asked["cwd"], *asked["environment"]["PYTHONPATH"].split(os.pathsep)]
runpy.run_module(asked["module"], run_name="__main__", alter_sys=True)
"""


class WarmProcess:
    """A process that has imported the libraries, nothing of ours, and forks for each run.

    A run starts in a tenth of a second, where a new interpreter takes three seconds of imports.
    """

    def __init__(self) -> None:
        command = [sys.executable, "-c", _SERVER, *_LIBRARIES]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lock = threading.Lock()

    def run(
        self, module: str, arguments: tuple[str, ...], cwd: Path, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """`python -m MODULE ARGUMENTS` in the folder `cwd`, to its end; `environment` has a PYTHONPATH."""
        assert self.process.stdin
        assert self.process.stdout
        with tempfile.TemporaryDirectory() as folder, self.lock:
            outputs = [Path(folder) / name for name in ("stdout", "stderr")]
            asked = {
                "module": module,
                "arguments": arguments,
                "cwd": str(cwd),
                "environment": {**environment},
            }
            print(json.dumps({**asked, "outputs": [*map(str, outputs)]}), file=self.process.stdin, flush=True)
            code = int(self.process.stdout.readline())
            return subprocess.CompletedProcess(
                [module, *arguments], code, *(file.read_text() for file in outputs)
            )


warm_process = cache(WarmProcess)
"""The one of these tests."""
