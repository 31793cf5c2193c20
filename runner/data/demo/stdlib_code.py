"""The functions of CPython's standard library, about 6 MB of source code to train on without a download."""

import ast
import textwrap
import warnings
from collections.abc import Iterator
from typing import Any

from tiryns.runner.data.demo.stdlib_text import SHORTEST, StdlibText, source_files


class StdlibCode:
    """Functions and methods of the standard library without their docstrings, one document each, in a fixed order.

    Sources are parsed, never imported. Repeated ones appear once. What is in the docstrings is in `StdlibText`.

    Example:
        >>> next(StdlibCode().documents()).splitlines()[0]
        'def __init__(self, optionalRelease, mandatoryRelease, compiler_flag):'
    """

    tokenized = False

    def __init__(self) -> None:
        self._documents: list[str] | None = None

    def documents(self) -> Iterator[str]:
        """Functions by file and line. Raises FileNotFoundError for a Python without sources."""
        if self._documents is None:
            texts = (text for path in source_files() for text in functions(path.read_bytes()))
            self._documents = [text for text in dict.fromkeys(texts) if len(text) >= SHORTEST]
        if not self._documents:
            next(StdlibText().documents())  # raises with advice
        return iter(self._documents)

    def fingerprint(self) -> dict[str, Any]:
        """Python's version and the names and sizes of the files that are read."""
        return {**StdlibText().fingerprint(), "source": "stdlib_code", "version": 1}

    def describe(self) -> str:
        """One line for the summary of a run."""
        return StdlibText().describe().replace("documentation", "source code")


def functions(source: bytes) -> Iterator[str]:
    """The functions and methods of a module's source without their docstrings, by line; none if it cannot be parsed.

    Example:
        >>> list(functions(b'def one():\\n    "What it does."\\n    return 1\\n'))
        ['def one():\\n    return 1']
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # invalid escapes in old sources
            tree = ast.parse(source)
        lines = source.decode("utf-8").split("\n")
    except (SyntaxError, ValueError):  # templates, examples of wrong syntax, other encodings
        return
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
    found = [
        node for body in bodies for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    for node in sorted(found, key=lambda node: node.lineno):
        kept = lines[node.lineno - 1 : node.end_lineno]
        if ast.get_docstring(node, clean=False) is not None:
            first, last = node.body[0].lineno, node.body[0].end_lineno
            assert last is not None
            kept = lines[node.lineno - 1 : first - 1] + lines[last : node.end_lineno]
        yield textwrap.dedent("\n".join(kept)).strip()
