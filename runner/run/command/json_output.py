"""Prints the answer of a command as one JSON document, the only text on standard output."""

import functools
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TextIO

_documents: ContextVar[list[str] | None] = ContextVar("_documents", default=None)
"""The documents of the running command; None if its answer is for people."""


def add_json_argument(parser: Any) -> None:
    """Adds `--json` to a parser, or to an argument group of a parser."""
    parser.add_argument(
        "--json", action="store_true", help="one JSON document on standard output, for programs"
    )


def plain(value: object) -> Any:
    """Returns a value for JSON: arrays as lists, paths as text, and null for numbers that are not finite."""
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if hasattr(value, "tolist"):  # numpy's
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value


def as_json(value: object) -> str:
    """Returns an indented JSON document, with floats in full."""
    return json.dumps(plain(value), ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def print_json(value: object, file: Path | None = None) -> None:
    """Writes a command's document to `file`, or prints it; within `json_alone` it is printed when that block ends."""
    if file is not None:
        from tiryns.runner.run.files import writing  # with Hydra, for which Ctrl-C is not caught yet

        with writing(file) as out:
            out.write(as_json(value))
    elif (documents := _documents.get()) is None:
        sys.stdout.write(as_json(value))
    else:
        documents.append(as_json(value))


def wants_json() -> bool:
    """Whether the running command must answer with a JSON document."""
    return _documents.get() is not None


class Answered(SystemExit):
    """Ends a command that has answered with a document. Its exit status is a part of the answer, not a failure."""


@contextmanager
def json_alone() -> Iterator[None]:
    """Prints only the block's documents (`print_json`) on standard output, and all its other output on standard error."""
    documents: list[str] = []
    token = _documents.set(documents)
    try:
        with output_to_stderr():
            yield
    except SystemExit as ended:
        if documents and isinstance(ended.code, int):
            raise Answered(ended.code) from None
        raise
    finally:
        _documents.reset(token)
        sys.stdout.write("".join(documents))


@contextmanager
def output_to_stderr() -> Iterator[None]:
    """Sends what this process and its children print in the block to standard error."""
    sys.stdout.flush()
    descriptor = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(_second_stderr() if writes_to(sys.stderr, 2) else sys.stderr):
            yield
    finally:
        os.dup2(descriptor, 1)
        os.close(descriptor)


def writes_to(stream: TextIO, number: int) -> bool:
    """Whether a stream writes to the same file as the descriptor `number`, not into memory."""
    try:
        return os.path.sameopenfile(stream.fileno(), number)
    except (AttributeError, OSError, ValueError):
        return False


@functools.cache
def _second_stderr() -> TextIO:
    """Opens standard error a second time: a sweep may send this descriptor to a file, and warnings stay visible."""
    same = sys.stderr
    return open(os.dup(2), "w", buffering=1, encoding=same.encoding, errors=same.errors)
