"""Lets a run go on when nobody reads its output any more, as with `iolaus ... | head`."""

import os
import sys
from typing import Any, TextIO


class LastingStream:
    """A text stream whose later output is dropped once its reader has gone.

    Example:
        >>> sys.stdout = LastingStream(sys.stdout)
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes, or drops the text; returns its length."""
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            self._drop()
            return len(text)

    def flush(self) -> None:
        """Flushes what the reader may still get."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._drop()

    def _drop(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def outlast_readers() -> None:
    """Makes the output of this process one that no closed pipe ends."""
    for name in ("stdout", "stderr"):
        if not isinstance(stream := getattr(sys, name), LastingStream):
            setattr(sys, name, LastingStream(stream))
