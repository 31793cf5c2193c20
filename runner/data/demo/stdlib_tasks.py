"""Labelled examples from what every CPython ships, for each task: nothing to download.

All is read from the sources of the standard library, which are parsed and never imported, and is the same every time
for the same Python. Parts (`train`, `validation`, `test`) share no text.
"""

import ast
import inspect
import io
import keyword
import platform
import re
import sysconfig
import tokenize
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any

from iolaus.runner.data.demo.stdlib_text import SHORTEST, docstrings, source_files

PARTS = ("train", "validation", "test")

FEWEST_DOCSTRINGS = 80
"""Packages with fewer docstrings are no label."""

LONGEST_TEXT = 600
"""Characters of a docstring that are kept."""

PIECES = {"train": 3000, "validation": 400, "test": 400}
"""Pieces of source in each part."""

MOST_PIECES_OF_A_FILE = 24
LINES_OF_A_PIECE = 4
MOST_WORDS = 80
CONTEXTS_PER_QUESTIONED = 4
"""One in so many documented functions and classes is asked about."""

LARGEST_FILE = 40_000
"""Bytes: longer sources are left out, for speed."""


class StdlibTask:
    """Rows of one part, and how they are called in messages."""

    what: str

    def __init__(self, part: str) -> None:
        if part not in PARTS:
            raise ValueError(f"{type(self).__name__} has no part {part!r}; there are: {', '.join(PARTS)}")
        self.part = part

    def rows(self) -> list[dict[str, Any]]:
        """The examples of the part.

        Raises:
            FileNotFoundError: this Python carries no sources of its standard library.
        """
        rows = list(self.examples())
        if not rows:
            raise FileNotFoundError(
                f"no {self.what} in {library()}: this Python ships without the sources of its standard library; use "
                "files of your own, such as data=classification data.train=<path>"
            )
        return rows

    def examples(self) -> Iterator[dict[str, Any]]:
        """The rows, in a fixed order."""
        raise NotImplementedError

    def describe(self) -> str:
        """One line for the summary of a run."""
        return f"{self.what} of Python {platform.python_version()}, {self.part}"


class StdlibDocstrings(StdlibTask):
    """Classification: `text`, a docstring, and `label`, the top-level package or module that it is from."""

    what = "docstrings"

    def examples(self) -> Iterator[dict[str, Any]]:
        """Docstrings by file and line."""
        for number, (text, label) in enumerate(_labelled_docstrings()):
            if part_of(text) == self.part:
                yield {"id": f"docstring-{number}", "text": text, "label": label}


class StdlibTokens(StdlibTask):
    """Token classification: `words` of a few lines of source, and `labels`, the token each word lies in.

    Labels are BIO tags of Python's own tokens: NAME, KEYWORD, NUMBER, STRING, COMMENT; operators are `O`. A string or
    comment is one entity of many words.
    """

    what = "pieces of source"

    def examples(self) -> Iterator[dict[str, Any]]:
        """Pieces by file and line, from files in a shuffled order."""
        left = PIECES[self.part]
        files = {
            f.relative_to(library()).as_posix(): f for f in source_files() if f.stat().st_size <= LARGEST_FILE
        }
        for name in sorted((name for name in files if part_of(name) == self.part), key=_digest):
            pieces = list(source_pieces(_source(files[name])))[:MOST_PIECES_OF_A_FILE]
            for line, words, labels in pieces[:left]:
                yield {"id": f"{name}:{line}", "words": words, "labels": labels}
            left -= len(pieces)
            if left <= 0:
                return


class StdlibQuestions(StdlibTask):
    """Question answering: `question` on a `context`, a signature with its docstring, and `answers` as in SQuAD.

    Asked are defaults, the order of parameters, base classes, and what a function does; some ask for a parameter that
    is not there.
    """

    what = "questions"

    def examples(self) -> Iterator[dict[str, Any]]:
        """Questions by file and line."""
        for question, context, span in _asked():
            if part_of(context) == self.part:
                texts, starts = ([context[slice(*span)]], [span[0]]) if span else ([], [])
                yield {
                    "id": blake2b(f"{question} {context}".encode(), digest_size=8).hexdigest(),
                    "question": question,
                    "context": context,
                    "answers": {"text": texts, "answer_start": starts},
                }


def part_of(text: str) -> str:
    """The part a text belongs to: one in ten for validation, one in ten for test."""
    return {0: "validation", 1: "test"}.get(_digest(text) % 10, "train")


def source_pieces(source: str) -> Iterator[tuple[int, list[str], list[str]]]:
    """First line, words and BIO tags of runs of lines that cut through no token."""
    lines = source.splitlines(keepends=True)
    spans = list(_token_spans(source, lines))
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    crossed = {row for (first, last), _, _ in spans for row in range(first + 1, last + 1)}
    first = 1
    at = 0
    for row in range(1, len(lines) + 1):
        if row + 1 in crossed or (row - first + 1 < LINES_OF_A_PIECE and row < len(lines)):
            continue
        words, labels = [], []
        while at < len(spans) and spans[at][1][0] < starts[row]:
            _, (low, high), kind = spans[at]
            found = re.findall(r"\w+|[^\w\s]", source[low:high])
            words += found
            labels += ["O"] * len(found) if kind == "OP" else [f"B-{kind}", *[f"I-{kind}"] * (len(found) - 1)]
            at += 1
        if 4 <= len(words) <= MOST_WORDS:
            yield first, words, labels
        first = row + 1


def _token_spans(source: str, lines: list[str]) -> Iterator[tuple[tuple[int, int], tuple[int, int], str]]:
    """Rows, places and kind of every token that has text; nothing where the source cannot be read as Python."""
    starts = [0, 0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (tokenize.TokenError, SyntaxError):
        return
    for token in tokens:
        kind = tokenize.tok_name[token.type]
        kind = "STRING" if kind.startswith("FSTRING") else kind
        if kind == "NAME" and keyword.iskeyword(token.string):
            kind = "KEYWORD"
        if kind in ("NAME", "KEYWORD", "NUMBER", "STRING", "COMMENT", "OP") and token.string.strip():
            rows = (token.start[0], token.end[0])
            yield rows, (starts[rows[0]] + token.start[1], starts[rows[1]] + token.end[1]), kind


@cache
def _labelled_docstrings() -> list[tuple[str, str]]:
    found: dict[str, str] = {}
    for path in source_files():
        label = path.relative_to(library()).parts[0].removesuffix(".py").lstrip("_")
        for docstring in docstrings(path.read_bytes()):
            text = inspect.cleandoc(docstring)[:LONGEST_TEXT]
            if len(text) >= SHORTEST:
                found.setdefault(text, label)
    counts = Counter(found.values())
    return [(text, label) for text, label in found.items() if counts[label] >= FEWEST_DOCSTRINGS]


@cache
def _asked() -> list[tuple[str, str, tuple[int, int] | None]]:
    """Question, context and place of the answer; of every few contexts one is taken."""
    found: dict[tuple[str, str], tuple[int, int] | None] = {}
    for path in source_files():
        for name, head, spans, text in _documented(path):
            context = f"{head}\n\n{text}"
            if _digest(context) // 10 % CONTEXTS_PER_QUESTIONED == 0:
                for question, span in _questions(name, head, spans, text):
                    found.setdefault((question, context), span)
    return [(question, context, span) for (question, context), span in found.items()]


def _documented(path: Path) -> Iterator[tuple[str, str, list[tuple[str, int, str]], str]]:
    """Name, first line, its parts (what, place, text) and docstring of every documented function and class."""
    nodes = [n for n in ast.walk(_parsed(path)) if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    for node in sorted(nodes, key=lambda n: n.lineno):
        text = inspect.cleandoc(ast.get_docstring(node, clean=False) or "")[:LONGEST_TEXT]
        if len(text) < SHORTEST or node.name.startswith("__"):
            continue
        head = f"class {node.name}(" if isinstance(node, ast.ClassDef) else f"def {node.name}("
        spans: list[tuple[str, int, str]] = []
        for i, (what, name, default) in enumerate(_parameters(node)):
            head += ", " * bool(i)
            spans.append((what, len(head), name))
            head += name
            if default is not None:
                head += "="
                spans.append(("default", len(head), default))
                head += default
        yield node.name, head + ")", spans, text


def _parameters(node: ast.FunctionDef | ast.ClassDef) -> Iterator[tuple[str, str, str | None]]:
    """`base` or `parameter`, its name, and its default."""
    if isinstance(node, ast.ClassDef):
        yield from (("base", ast.unparse(base), None) for base in node.bases)
        return
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    for argument, default in [
        *zip(positional, defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]:
        if argument.arg not in ("self", "cls"):
            yield "parameter", argument.arg, None if default is None else ast.unparse(default)


def _questions(
    name: str, head: str, spans: list[tuple[str, int, str]], text: str
) -> Iterator[tuple[str, tuple[int, int] | None]]:
    """Questions, and where in the context their answers stand; None for those that have none."""
    if spans and spans[0][0] == "base":
        yield f"What does the class {name} derive from?", _place(spans[0])
    names = [span for span in spans if span[0] == "parameter"]
    for span, following in pairwise(spans):
        if following[0] == "default":
            yield f"What is the default of {span[2]}?", _place(following)
    for span, following in pairwise(names):
        yield f"Which parameter comes after {span[2]}?", _place(following)
    if names:
        yield f"What is the first parameter of {name}?", _place(names[0])
        absent = ("timeout", "encoding", "filename", "callback", "default", "mode")[_digest(head) % 6]
        if absent not in head:
            yield f"What is the default of {absent}?", None
    if sentence := re.match(r"[^.\n]{8,120}(?=\.|\n|$)", text):
        begin = len(head) + 2
        yield f"What does {name} do?", (begin, begin + sentence.end())


def _place(span: tuple[str, int, str]) -> tuple[int, int]:
    return span[1], span[1] + len(span[2])


def library() -> Path:
    """Where the standard library's sources lie."""
    return Path(sysconfig.get_paths()["stdlib"])


def _parsed(path: Path) -> ast.AST:
    try:
        with warnings.catch_warnings():  # invalid escapes in old sources
            warnings.simplefilter("ignore")
            return ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # templates and examples of wrong syntax
        return ast.Module([], [])


def _source(path: Path) -> str:
    with tokenize.open(path) as file:
        return file.read()


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "little")
