"""The documentation of CPython, about 2 MB, and its functions, about 6 MB of code, to train on without a download."""

import ast
import hashlib
import inspect
import os
import platform
import re
import sysconfig
import textwrap
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache, cached_property
from itertools import chain
from pathlib import Path

SKIPPED_FOLDERS = frozenset(
    {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__", "lib-dynload"}
)
"""Folders of tests and of installed packages."""

SHORTEST = 32
"""Characters of the shortest document."""

VERSION = 1
"""Increased when the same Python version would give other documents."""

_RULE = re.compile(r"([^\w\s])\1{3,}")
"""Borders of tables and underlines of headings."""

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
"""Nodes that may have a docstring."""


class Stdlib:
    """Documents that a subclass finds in the standard library's sources, in a fixed order, without repetitions."""

    tokenized = False
    source: str
    noun: str

    def texts(self) -> Iterator[str]:
        """Returns the texts; some of them may be repeated or too short to be documents."""
        raise NotImplementedError

    @cached_property
    def _documents(self) -> list[str]:
        return [text for text in dict.fromkeys(self.texts()) if len(text) >= SHORTEST]

    def documents(self) -> Iterator[str]:
        """Returns the documents. Raises FileNotFoundError for a Python without sources."""
        if not self._documents:
            raise FileNotFoundError(
                f"no {self.noun} in {library()}: this Python ships without the sources of its standard library; choose "
                "another source, such as data=files data.source=<path>"
            )
        return iter(self._documents)

    def fingerprint(self) -> Mapping[str, object]:
        """Returns Python's version, and a hash of the names and sizes of the source files."""
        python = platform.python_version()
        return {"source": self.source, "version": VERSION, "python": python, "files": _listing(library())}

    def describe(self) -> str:
        """One line for the summary of a run."""
        return f"{self.noun} of Python {platform.python_version()}"


class StdlibText(Stdlib):
    """Help topics of `pydoc_data` by name, then docstrings by file and line, one document each.

    Sources are parsed, never imported.

    Example:
        >>> next(StdlibText().documents()).splitlines()[0]
        'The "assert" statement'
    """

    source, noun = "stdlib_text", "documentation"

    def texts(self) -> Iterator[str]:
        """Returns topics and docstrings; a sign that is repeated four times or more is kept three times."""
        groups = [[text for _, text in docstrings_in(path.read_bytes())] for path in source_files()]
        with suppress(ImportError):  # some distributions package it apart
            from pydoc_data.topics import topics

            groups.insert(0, [topics[name] for name in sorted(topics)])
        return (_RULE.sub(r"\1\1\1", inspect.cleandoc(text).strip()) for text in chain.from_iterable(groups))


@cache
def library() -> Path:
    """Returns the folder of the standard library's sources."""
    return Path(sysconfig.get_paths()["stdlib"])


def source_files() -> list[Path]:
    """Returns the Python files of the standard library without its tests, sorted by path."""
    files = []
    for folder, folders, names in os.walk(library()):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
        files += [Path(folder, name) for name in sorted(names) if name.endswith(".py")]
    return files


@cache  # the jobs of a sweep ask again and again
def _listing(library: Path) -> str:
    """Returns a hash of the names and sizes of the source files of a library."""
    listing = hashlib.blake2b(digest_size=16)
    for path in source_files():
        listing.update(f"{path.relative_to(library).as_posix()} {path.stat().st_size}\n".encode())
    return listing.hexdigest()


def parse(source: bytes) -> ast.Module | None:
    """Returns the syntax tree of a module; None if the source is not valid Python, as in templates."""
    try:
        with warnings.catch_warnings(action="ignore"):  # invalid escapes in old sources
            return ast.parse(source)
    except (SyntaxError, ValueError):
        return None


def docstrings_in(source: bytes) -> Iterator[tuple[Documented, str]]:
    """Yields each module, class or function with a docstring, and the docstring, by line; nothing for invalid Python."""
    tree = parse(source)
    nodes: list[ast.AST] = [] if tree is None else [tree]
    definitions: list[Documented] = []
    while nodes:  # definitions stand in lists of statements, so that expressions are not searched
        if isinstance(node := nodes.pop(), Documented):
            definitions.append(node)
        for field in ("body", "orelse", "handlers", "finalbody", "cases"):
            nodes += getattr(node, field, ())
    for one in sorted(definitions, key=lambda one: getattr(one, "lineno", 0)):
        if text := ast.get_docstring(one, clean=False):
            yield one, text


class StdlibCode(Stdlib):
    """Functions and methods of the standard library without their docstrings, one document each, by file and line.

    Sources are parsed, never imported. `StdlibText` has the docstrings.

    Example:
        >>> next(StdlibCode().documents()).splitlines()[0]
        'def __init__(self, optionalRelease, mandatoryRelease, compiler_flag):'
    """

    source, noun = "stdlib_code", "source code"

    def texts(self) -> Iterator[str]:
        """Returns the functions of all files."""
        return (text for path in source_files() for text in functions(path.read_bytes()))


def functions(source: bytes) -> Iterator[str]:
    """Yields a source's functions and methods without their docstrings, by line; nothing for invalid Python or UTF-8.

    Example:
        >>> list(functions(b'def one():\\n    "What it does."\\n    return 1\\n'))
        ['def one():\\n    return 1']
    """
    tree = parse(source)
    try:
        lines = source.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        return
    if tree is None:
        return
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    definitions = [node for body in bodies for node in body if isinstance(node, kinds)]
    for node in sorted(definitions, key=lambda node: node.lineno):
        code_lines = lines[node.lineno - 1 : node.end_lineno]
        if ast.get_docstring(node, clean=False) is not None:
            first, last = node.body[0].lineno, node.body[0].end_lineno
            assert last is not None
            code_lines = lines[node.lineno - 1 : first - 1] + lines[last : node.end_lineno]
        yield textwrap.dedent("\n".join(code_lines)).strip()
