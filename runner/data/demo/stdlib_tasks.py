"""Labelled examples of each finetuning task, from the sources of the standard library: nothing to download.

Sources are parsed, never imported. A Python version always gives the same examples. Parts share no text.
"""

import ast
import inspect
import io
import keyword
import platform
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from importlib.util import decode_source
from itertools import accumulate, islice, pairwise

from tiryns.runner.data.demo.stdlib_text import SHORTEST, Documented, docstrings_in, library, source_files
from tiryns.runner.data.read.rows import Values

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
"""One in this many functions and classes has questions."""

LARGEST_FILE = 40_000
"""Bytes of the largest source that is read, for speed."""

Part = tuple[str, str, tuple[int, int]]
"""A part of a signature: its type (`base`, `parameter` or `default`), its text, and its span [start, stop)."""


class StdlibTask:
    """The rows of one part (`train`, ...). A subclass makes the rows; its `noun` names them in messages."""

    noun: str

    def __init__(self, part: str) -> None:
        if part not in PARTS:
            raise ValueError(f"{type(self).__name__} has no part {part!r}; there are: {', '.join(PARTS)}")
        self.part = part

    def rows(self) -> list[Values]:
        """Returns the examples of the part. Raises FileNotFoundError for a Python without sources of its library."""
        rows = list(self.examples())
        if not rows:
            raise FileNotFoundError(
                f"no {self.noun} in {library()}: this Python ships without the sources of its standard library; use "
                "files of your own, such as data=classification data.train=<path>"
            )
        return rows

    def examples(self) -> Iterator[Values]:
        """Returns the rows, in a fixed order."""
        raise NotImplementedError

    def describe(self) -> str:
        """One line for the summary of a run."""
        return f"{self.noun} of Python {platform.python_version()}, {self.part}"


class StdlibDocstrings(StdlibTask):
    """Classification: `text`, a docstring, and `label`, its top-level package or module.

    Example:
        >>> sorted(StdlibDocstrings("test").rows()[0])
        ['id', 'label', 'text']
    """

    noun = "docstrings"

    def examples(self) -> Iterator[Values]:
        """Yields the docstrings, ordered by file and line."""
        for number, (text, label) in enumerate(labelled_docstrings()):
            if part_of(text) == self.part:
                yield {"id": f"docstring-{number}", "text": text, "label": label}


class StdlibTokens(StdlibTask):
    """Token classification: `words` of a few lines of source, and `labels`, BIO tags of Python's tokens.

    The entities are NAME, KEYWORD, NUMBER, STRING and COMMENT; operators are `O`. A string or comment of many words is
    one entity.

    Example:
        >>> sorted(StdlibTokens("test").rows()[0])
        ['id', 'labels', 'words']
    """

    noun = "pieces of source"

    def examples(self) -> Iterator[Values]:
        """Returns pieces of files in a shuffled order; the pieces of a file are ordered by line."""
        small = (file for file in source_files() if file.stat().st_size <= LARGEST_FILE)
        files = {file.relative_to(library()).as_posix(): file for file in small}
        pieces = (
            {"id": f"{name}:{line}", "words": words, "labels": labels}
            for name in sorted((name for name in files if part_of(name) == self.part), key=digest)
            for line, words, labels in islice(
                source_pieces(decode_source(files[name].read_bytes())), MOST_PIECES_OF_A_FILE
            )
        )
        return islice(pieces, PIECES[self.part])


class StdlibQuestions(StdlibTask):
    """Question answering: `question` on a `context`, a signature with its docstring, and `answers` as in SQuAD.

    Questions are about defaults, the order of parameters, base classes, and what a function does; some are about a
    parameter that is not there.

    Example:
        >>> sorted(StdlibQuestions("test").rows()[0])
        ['answers', 'context', 'id', 'question']
    """

    noun = "questions"

    def examples(self) -> Iterator[Values]:
        """Yields the questions, ordered by file and line."""
        for (question, context), span in _answer_spans().items():
            if part_of(context) == self.part:
                texts, starts = ([context[slice(*span)]], [span[0]]) if span else ([], [])
                yield {
                    "id": blake2b(f"{question} {context}".encode(), digest_size=8).hexdigest(),
                    "question": question,
                    "context": context,
                    "answers": {"text": texts, "answer_start": starts},
                }


def part_of(text: str) -> str:
    """Returns the part of a text: `validation` for one text in ten, `test` for one in ten, else `train`."""
    return {0: "validation", 1: "test"}.get(digest(text) % 10, "train")


def source_pieces(source: str) -> Iterator[tuple[int, list[str], list[str]]]:
    """Yields pieces of whole lines, which split no token: the number of the first line, the words, their BIO tags."""
    starts = [0, *accumulate(map(len, io.StringIO(source)))]  # as tokenize has lines: a form feed ends none
    tokens = list(_tokens(source))
    inner_rows = {row for token, _ in tokens for row in range(token.start[0], token.end[0])}
    first, at = 1, 0
    for row in range(1, len(starts)):
        if row in inner_rows or (row - first + 1 < LINES_OF_A_PIECE and row < len(starts) - 1):
            continue
        words, labels = [], []
        while at < len(tokens) and tokens[at][0].start[0] <= row:
            token, kind = tokens[at]
            begin, end = (starts[line - 1] + column for line, column in (token.start, token.end))
            parts = re.findall(r"\w+|[^\w\s]", source[begin:end])
            words += parts
            labels += ["O"] * len(parts) if kind == "OP" else [f"B-{kind}", *[f"I-{kind}"] * (len(parts) - 1)]
            at += 1
        if 4 <= len(words) <= MOST_WORDS:
            yield first, words, labels
        first = row + 1


def _tokens(source: str) -> Iterator[tuple[tokenize.TokenInfo, str]]:
    """Yields every token that has text, with its kind; yields nothing if the source cannot be read as Python."""
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
            yield token, kind


def documentation() -> Iterator[tuple[str, Documented, str]]:
    """Yields module (as `email/message`), node and text of each docstring of enough length, ordered by file and line."""
    for path in source_files():
        module = path.relative_to(library()).with_suffix("").as_posix()
        for node, docstring in docstrings_in(path.read_bytes()):
            if len(text := inspect.cleandoc(docstring)[:LONGEST_TEXT]) >= SHORTEST:
                yield module, node, text


def package_of(module: str) -> str:
    """Returns the top-level package or module of a module."""
    return module.partition("/")[0].lstrip("_")


@cache
def labelled_docstrings() -> list[tuple[str, str]]:
    """Returns docstrings with their packages, for packages with `FEWEST_DOCSTRINGS` or more docstrings."""
    packages: dict[str, str] = {}
    for module, _, text in documentation():
        packages.setdefault(text, package_of(module))
    counts = Counter(packages.values())
    return [(text, label) for text, label in packages.items() if counts[label] >= FEWEST_DOCSTRINGS]


@cache
def _answer_spans() -> dict[tuple[str, str], tuple[int, int] | None]:
    """Returns the span of each answer, by question and context, for some contexts; None if there is no answer."""
    spans: dict[tuple[str, str], tuple[int, int] | None] = {}
    for _, node, text in documentation():
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("__"):
            head, parts = _signature(node)
            context = f"{head}\n\n{text}"
            if digest(context) // 10 % CONTEXTS_PER_QUESTIONED == 0:
                for question, span in _questions(node.name, head, parts, text):
                    spans.setdefault((question, context), span)
    return spans


def _signature(node: ast.FunctionDef | ast.ClassDef) -> tuple[str, list[Part]]:
    """Returns the first line of a function or class, and its parts."""
    pieces: list[tuple[str, str]] = []
    if isinstance(node, ast.ClassDef):
        head = f"class {node.name}("
        pieces += [("base", ast.unparse(base)) for base in node.bases]
    else:
        head, args = f"def {node.name}(", node.args
        positional = [*args.posonlyargs, *args.args]
        defaults = [None] * (len(positional) - len(args.defaults)) + list(args.defaults) + args.kw_defaults
        for argument, default in zip([*positional, *args.kwonlyargs], defaults, strict=True):
            if argument.arg not in ("self", "cls"):
                pieces.append(("parameter", argument.arg))
                if default is not None:
                    pieces.append(("default", ast.unparse(default)))
    parts: list[Part] = []
    for kind, text in pieces:
        if parts:
            head += "=" if kind == "default" else ", "
        parts.append((kind, text, (len(head), len(head) + len(text))))
        head += text
    return head + ")", parts


def _questions(
    name: str, head: str, parts: list[Part], text: str
) -> Iterator[tuple[str, tuple[int, int] | None]]:
    """Yields questions and the spans of their answers in the context; the span is None if there is no answer."""
    if parts and parts[0][0] == "base":
        yield f"What does the class {name} derive from?", parts[0][2]
    parameters = [part for part in parts if part[0] == "parameter"]
    for (_, before, _), (kind, _, place) in pairwise(parts):
        if kind == "default":
            yield f"What is the default of {before}?", place
    for (_, before, _), (_, _, place) in pairwise(parameters):
        yield f"Which parameter comes after {before}?", place
    if parameters:
        yield f"What is the first parameter of {name}?", parameters[0][2]
        absent = ("timeout", "encoding", "filename", "callback", "default", "mode")[digest(head) % 6]
        if absent not in head:
            yield f"What is the default of {absent}?", None
    if sentence := re.match(r"[^.\n]{8,120}(?=\.|\n|$)", text):
        begin = len(head) + 2
        yield f"What does {name} do?", (begin, begin + sentence.end())


def digest(text: str) -> int:
    """Returns a 64-bit hash of a text."""
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "little")
