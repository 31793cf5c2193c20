"""The functions of CPython's standard library, about 6 MB of source code to train on without a download."""

import ast
import textwrap
from collections.abc import Iterator

from tiryns.runner.data.demo.stdlib_text import Stdlib, parsed, source_files


class StdlibCode(Stdlib):
    """Functions and methods of the standard library without their docstrings, one document each, by file and line.

    Sources are parsed, never imported. What is in the docstrings is in `StdlibText`.

    Example:
        >>> next(StdlibCode().documents()).splitlines()[0]
        'def __init__(self, optionalRelease, mandatoryRelease, compiler_flag):'
    """

    source, what = "stdlib_code", "source code"

    def texts(self) -> Iterator[str]:
        """The functions of all files."""
        return (text for path in source_files() for text in functions(path.read_bytes()))


def functions(source: bytes) -> Iterator[str]:
    """The functions and methods of a module's source without their docstrings, by line; none if it cannot be parsed.

    Example:
        >>> list(functions(b'def one():\\n    "What it does."\\n    return 1\\n'))
        ['def one():\\n    return 1']
    """
    tree = parsed(source)
    try:
        lines = source.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        return
    if tree is None:
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
