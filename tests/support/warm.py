"""A process that has imported libraries and nothing of ours, and forks for each run: `python warm.py LIBRARY...`.

A run starts in a tenth of a second, where a new interpreter takes three seconds of imports; so do the processes of Python
that a run starts, such as its ranks, which a child of it forks that knows nothing of the run either. This file knows the
standard library alone.
"""

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
import time
from typing import Any

SET_CHILD_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2): grandchildren whose parent ends become children."""

SECONDS = 300
"""A run takes no longer."""


def serve() -> None:
    """Forks for each line of stdin, and prints the exit status of its run."""
    for line in sys.stdin:
        if not (child := os.fork()):
            asked = json.loads(line)
            signal.alarm(SECONDS)
            fork_processes_of_python()
            files = [os.open(os.devnull, os.O_RDONLY)]
            files += [os.open(path, os.O_WRONLY | os.O_CREAT) for path in asked.pop("outputs")]
            become(**asked, files=files)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def become(
    module: str,
    arguments: list[str],
    cwd: str,
    environment: dict[str, str],
    files: list[int],
    beside: bool = True,
) -> None:
    """Makes this process `python -m MODULE ARGUMENTS`, with the first three `files`; `beside` finds modules in `cwd`."""
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    found = [part for part in environment.get("PYTHONPATH", "").split(os.pathsep) if part]
    sys.path[:1] = [cwd, *found] if beside else found
    sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    sys.exit()


def fork_processes_of_python() -> None:
    """From now on `Popen` of `python -m MODULE` takes a fork of this process as it is now."""
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1)
    ours, theirs = socket.socketpair()
    launcher = os.getpid()
    if not os.fork():
        ours.close()
        nurse(theirs, launcher)
    theirs.close()
    execute: Any = subprocess.Popen._execute_child  # type: ignore[attr-defined]

    def fork(
        self: Any, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, *rest: Any
    ) -> None:
        (cwd, env, _, _, shell), pipes, (*_, session, _) = rest[:5], rest[5:11], rest[11:]
        words = [] if isinstance(args, str | bytes) or shell else [os.fspath(word) for word in args]
        beside = words[1:2] != ["-P"]
        words = words[:1] + words[1 if beside else 2 :]
        if words[:2] != [sys.executable, "-m"] or preexec_fn or executable or os.getpid() != launcher:
            execute(self, args, executable, preexec_fn, close_fds, pass_fds, *rest)
            return
        stdin, _, _, stdout, _, stderr = pipes
        files = [own if given == -1 else given for own, given in enumerate((stdin, stdout, stderr))]
        asked = {
            "module": words[2], "arguments": words[3:], "cwd": os.fspath(cwd or os.getcwd()), "beside": beside,
            "environment": dict(os.environ if env is None else env), "session": session,
        }  # fmt: skip
        text = json.dumps(asked).encode()
        socket.send_fds(ours, [len(text).to_bytes(8, "big")], files)
        ours.sendall(text)
        self.pid = int.from_bytes(exactly(ours, 8), "big")
        self._child_created = True
        self._close_pipe_fds(*pipes)

    subprocess.Popen._execute_child = fork  # type: ignore[attr-defined]


def exactly(channel: socket.socket, size: int) -> bytes:
    """So many bytes of a stream; fewer where it ends."""
    found = b""
    while len(found) < size and (more := channel.recv(size - len(found))):
        found += more
    return found


def nurse(channel: socket.socket, launcher: int) -> None:
    """Forks a process for each message, which becomes a child of the launcher, until the channel ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
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
            while os.getppid() != launcher:
                time.sleep(0.001)
            for number in range(1, signal.NSIG):
                if number not in (signal.SIGKILL, signal.SIGSTOP) and number < 32:
                    signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)
            if asked.pop("session"):
                os.setsid()
            placed = [os.dup(file) for file in files]
            channel.close()
            become(**asked, files=placed)
        for file in files:
            os.close(file)
        os.waitpid(between, 0)


if __name__ == "__main__":
    gc.disable()
    for name in sys.argv[1:]:
        importlib.import_module(name)
    gc.freeze()
    gc.enable()
    serve()
