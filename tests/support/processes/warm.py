"""Processes of Python that are forked, not started anew: `python warm.py CHANNEL MODULE...` imports the modules first.

A run starts in a tenth of a second, where a new interpreter takes three seconds of imports. So do the processes that it
starts with `python -m` or `-c`, such as its ranks: each process has a nursery of its own, forked before it runs
anything, whose children are handed over to it. This file knows the standard library alone.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

SET_CHILD_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2): grandchildren whose parent ends become children."""
SET_NAME = 15
"""PR_SET_NAME of prctl(2): what /proc/ID/comm says."""
ROOT, NAME = Path(__file__).resolve().parents[3], "tiryns"
"""The checkout, and the package in it that processes import."""
NURSE = "nurse"
"""The name of a process that only forks others."""


class Nursery:
    """Starts processes by messages over a channel to a process that runs `nurse`."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel, self.owner, self.one_at_a_time = channel, os.getpid(), threading.Lock()
        ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1)

    def start(self, asked: dict[str, Any], files: list[int]) -> int:
        """The process id of a new child of this process with these stdin, stdout, stderr; 0 if the nursery has ended."""
        text = json.dumps(asked).encode()
        with self.one_at_a_time, suppress(ConnectionError):  # threads may ask at once
            socket.send_fds(self.channel, [len(text).to_bytes(8, "big")], files)
            self.channel.sendall(text)
            return int.from_bytes(exactly(self.channel, 9)[:8], "big")
        return 0

    def take_over(self, popen: type[subprocess.Popen[Any]]) -> None:
        """Has a class of `Popen` start `python -m MODULE` and `python -c CODE` of this process here."""
        execute: Any = popen._execute_child  # type: ignore[attr-defined]

        def fork(made: Any, args: Any, executable: Any, preexec_fn: Any, *more: Any) -> None:
            (_, _, cwd, env, _, _, shell), pipes, (*_, session, _) = more[:7], more[7:13], more[13:]
            words = [] if isinstance(args, str | bytes) or shell else [os.fspath(word) for word in args]
            beside = words[1:2] != ["-P"]
            words = words[:1] + words[2 if words[1:2] in (["-P"], ["-u"]) else 1 :]
            known = words[:1] == [sys.executable] and words[1:2] in (["-m"], ["-c"]) and is_ours(env)
            pid = 0
            if known and not preexec_fn and not executable and os.getpid() == self.owner:
                given = pipes[0], pipes[3], pipes[5]
                asked = {
                    "program": words[1:3], "arguments": words[3:], "cwd": os.fspath(cwd or os.getcwd()), "beside": beside,
                    "environment": dict(os.environ if env is None else env), "session": session,
                }  # fmt: skip
                pid = self.start(asked, [own if file == -1 else file for own, file in enumerate(given)])
            if not pid:  # where a nursery could not import its modules, a new interpreter says why
                execute(made, args, executable, preexec_fn, *more)
                return
            made.pid, made._child_created = pid, True
            made._close_pipe_fds(*pipes)

        popen._execute_child, popen.nursery = fork, self  # type: ignore[attr-defined]
        self.execute = execute  # as the class did before


def is_ours(environment: Mapping[str, str] | None) -> bool:
    """Whether a process with this environment finds this program, not the one of another checkout."""
    paths = (os.environ if environment is None else environment).get("PYTHONPATH", "").split(os.pathsep)
    others = (os.path.join(path, NAME) for path in paths if path and os.path.realpath(path) != str(ROOT))
    return not any(map(os.path.isdir, others))


def nurse(channel: socket.socket, owner: int) -> NoReturn:
    """Forks a process for each message, which becomes a child of the owner, until the channel ends."""
    call_process(NURSE)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while True:
        length, files, _, _ = socket.recv_fds(channel, 8, 3)
        if not length:
            os._exit(0)
        asked = json.loads(exactly(channel, int.from_bytes(length, "big")))
        between = os.fork()
        if not between:
            if child := os.fork():
                channel.sendall(child.to_bytes(8, "big"))
                os._exit(0)
            while os.getppid() != owner:
                time.sleep(0.001)
            become(**asked, channel=channel, files=files)
        for file in files:
            os.close(file)
        os.waitpid(between, 0)
        channel.sendall(b".")  # it is the owner's child from now on


def become(
    program: list[str], arguments: list[str], cwd: str, environment: dict[str, str], beside: bool, session: bool,
    channel: socket.socket, files: list[int],
) -> NoReturn:  # fmt: skip
    """Makes this process `python PROGRAM ARGUMENTS` with a nursery; `beside` finds modules in its working folder."""
    for name in ("SIGTERM", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGQUIT"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if session:
        os.setsid()
    for number, file in enumerate([os.dup(file) for file in files]):
        os.dup2(file, number)
        os.close(file)
    for file in files:
        os.close(file)
    channel.close()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    call_process(name_of(environment))
    ours, theirs = socket.socketpair()
    owner = os.getpid()
    if not os.fork():
        ours.close()
        for number in range(3):  # nobody waits for the end of what it never writes
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        nurse(theirs, owner)
    theirs.close()
    Nursery(ours).take_over(subprocess.Popen)
    found = [part for part in environment.get("PYTHONPATH", "").split(os.pathsep) if part]
    sys.path[:1] = [cwd, *found] if beside else found
    sys.argv[1:] = arguments
    status: object = None
    try:
        run(*program)
    except SystemExit as ended:
        status = ended.code
    except BaseException:
        traceback.print_exc()
        status = 1
    if isinstance(status, str):
        print(status, file=sys.stderr)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(
        status if isinstance(status, int) else int(status is not None)
    )  # nothing is said of what was imported


def run(kind: str, text: str) -> None:
    """Runs the code of `-c`, or the module of `-m`, as the main one."""
    if kind == "-c":
        sys.argv[0] = "-c"
        exec(compile(text, "<string>", "exec"), vars(sys.modules["__main__"]))
    else:
        runpy.run_module(text, run_name="__main__", alter_sys=True)


def name_of(environment: Mapping[str, str]) -> str:
    """The name of a process: its rank, as /proc/ID/environ of a fork has not its environment."""
    return f"rank {environment['RANK']}" if "RANK" in environment else "python"


def call_process(name: str) -> None:
    """Gives this process a name, which its forks have too."""
    ctypes.CDLL(None).prctl(SET_NAME, name.encode())


def exactly(channel: socket.socket, size: int) -> bytes:
    """So many bytes of a stream; fewer where it ends."""
    found = b""
    while len(found) < size and (more := channel.recv(size - len(found))):
        found += more
    return found


if __name__ == "__main__":
    gc.disable()
    for name in sys.argv[2:]:
        importlib.import_module(name)
    gc.freeze()
    gc.enable()
    nurse(socket.socket(fileno=int(sys.argv[1])), os.getppid())
