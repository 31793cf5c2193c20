"""Renders chat templates of tokenizers in a separate process, as a template is a program of somebody else.

transformers' sandbox protects the machine, but not from nested loops, strings that double and numbers of a billion
digits. The kernel ends the process if it takes more time or memory than any conversation does.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import IO

_SECONDS = 10.0
"""Time of the CPU that one conversation takes at most."""

_MEMORY = 1 << 29
"""Bytes that a conversation takes at most."""

_LONGEST = 1 << 25
"""The most characters of a rendered conversation."""


class _Renderer:
    """A child process that renders the conversations of this process, one conversation per line."""

    def __init__(self) -> None:
        self.parent = os.getpid()
        self.process = subprocess.Popen(
            [sys.executable, "-P", __file__, str(_SECONDS), str(_MEMORY), str(_LONGEST)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}, text=True,
            encoding="utf-8",
        )  # fmt: skip
        _RENDERERS[self.parent] = self
        atexit.register(self.end)

    def __call__(self, request: str) -> str:
        """Returns the answer to a request; empty if the process ended without an answer."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(request + "\n")
            stdin.flush()
            return stdout.readline()
        except BrokenPipeError:
            return ""

    def end(self) -> None:
        """Ends the process, unless it belongs to the parent that this process was forked from."""
        if self.parent == os.getpid():
            self.process.kill()
            self.process.communicate()


_RENDERERS: dict[int, _Renderer] = {}
"""The renderer of each process, by process id; a forked process has no renderer yet."""

_LOCK = Lock()
os.register_at_fork(after_in_child=lambda: globals().update(_LOCK=Lock()))


def render_chat(
    template: str, messages: Sequence[Mapping[str, object]], tokens: Mapping[str, object], generate: bool
) -> str:
    """Renders a conversation with a chat template; `tokens` are the special tokens by name.

    `generate` adds the beginning of an answer. Raises ValueError if the template refuses the conversation, or exceeds
    the limits of time, memory or characters.
    """
    words = {"chat_template": template, "add_generation_prompt": generate, **tokens}
    request = json.dumps([list(messages), words], default=str)
    with _LOCK:
        for last in (False, True):
            renderer = _RENDERERS.get(os.getpid()) or _Renderer()
            if answer := renderer(request):
                text, refusal = json.loads(answer)
                if refusal is not None:
                    raise ValueError(refusal)
                return str(text)
            renderer.end()
            del _RENDERERS[os.getpid()]
            if last or renderer.process.returncode == -signal.SIGPROF:
                break
    raise ValueError(f"it takes more than {_SECONDS:g} seconds or {_MEMORY >> 20} MB")


def _serve(requests: IO[str], answers: IO[str], seconds: float, memory: int, longest: int) -> None:
    """Renders each line of `requests` within the bounds; it runs in the child process."""
    import resource

    from transformers.utils.chat_template_utils import render_jinja_template

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent tells when it is over
    with open("/proc/self/statm") if sys.platform == "linux" else open(os.devnull) as file:
        pages = file.read().split()
    if pages:
        limit = int(pages[0]) * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for request in requests:
        messages, words = json.loads(request)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        text, refusal = None, None
        try:
            text = render_jinja_template([messages], **words)[0][0]
        except MemoryError:
            refusal = f"it takes more than {memory >> 20} MB"
        except Exception as error:  # a template may raise what it likes
            refusal = " ".join(str(error)[:1000].split()) or type(error).__name__
        if text is not None and len(text) > longest:
            text, refusal = None, f"it writes more than {longest:,} characters"
        signal.setitimer(signal.ITIMER_PROF, 0)
        answers.write(json.dumps([text, refusal]) + "\n")
        answers.flush()


if __name__ == "__main__":
    _serve(sys.stdin, sys.stdout, float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
