"""Rows from the columns of CoNLL and CoNLL-U files: one sentence each, with its words and their labels."""

import re
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from iolaus.runner.data.read.opened import File, opened

CONLLU_FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")

_COMMENT = re.compile(r"# (\w+\s*=|id\s|newdoc\b|newpar\b)")
"""What a line about a sentence begins with; `# O` is a word."""

_NO_WORD = re.compile(r"\d+[-.]\d+")
"""What numbers a range of words or an empty node."""


def conll(file: File) -> Iterator[tuple[str, dict[str, Any]]]:
    """Columns by white space or tabs, a blank line between sentences; `-DOCSTART-` lines are passed over."""

    def parse(line: str) -> list[str] | None:
        if (
            line.startswith("-DOCSTART-")
            or _COMMENT.match(line)
            or (line.startswith("# ") and tabs and "\t" not in line)
        ):
            return None
        return [field.strip() for field in line.split("\t")] if tabs else line.split()

    tag_field = file.reading.tag_field
    with opened(file, newline=None) as text:
        tabs = any("\t" in line.strip() for line, _ in zip(text, range(100), strict=False))
    word = _column_number(file.reading.word_field, (), "data.word_field", file.path)
    tag = -1 if tag_field is None else _column_number(tag_field, (), "data.tag_field", file.path)
    yield from _sentences(file, parse, word, tag)


def conllu(file: File) -> Iterator[tuple[str, dict[str, Any]]]:
    """Universal Dependencies; ranges of words written as one and empty nodes are passed over."""

    def parse(line: str) -> list[str] | None:
        if line.startswith("#"):
            return None
        fields = line.split("\t")
        return None if _NO_WORD.fullmatch(fields[0]) else fields

    word_field, tag_field = file.reading.word_field, file.reading.tag_field
    word = "form" if word_field == 0 else word_field
    tag = "upos" if tag_field is None else tag_field
    numbers = (
        _column_number(word, CONLLU_FIELDS, "data.word_field", file.path),
        _column_number(tag, CONLLU_FIELDS, "data.tag_field", file.path),
    )
    yield from _sentences(file, parse, *numbers, columns=len(CONLLU_FIELDS))


def _sentences(
    file: File,
    parse: Callable[[str], list[str] | None],
    word: int,
    tag: int,
    columns: int | None = None,
) -> Iterator[tuple[str, dict[str, Any]]]:
    words: list[str] = []
    labels: list[str] = []
    first = 0
    path = file.path
    with opened(file, newline=None) as text:
        for number, line in enumerate(chain(text, ["\n"]), start=1):
            line = line.rstrip("\r\n")
            if not line.strip():
                if words:
                    values = {"id": f"{path.stem}-{first}", "words": words, "labels": labels}
                    yield f"line {first}", values
                words, labels = [], []
            elif (fields := parse(line)) is not None:
                columns = columns or len(fields)
                needed = max(word + 1, tag + 1, -word, -tag)
                if len(fields) != columns or columns < max(needed, 2):
                    raise ValueError(
                        f"{path}, line {number}: {len(fields)} columns where {max(columns, needed, 2)} are expected: "
                        f"{line[:60]!r}"
                    )
                if not fields[word].strip() or not fields[tag].strip():
                    raise ValueError(f"{path}, line {number}: the word or its label is empty: {line[:60]!r}")
                first = first if words else number
                words.append(fields[word])
                labels.append(fields[tag])


def _column_number(field: int | str, names: tuple[str, ...], setting: str, path: Path) -> int:
    if isinstance(field, int):
        return field
    if field.lower() in names:
        return names.index(field.lower())
    kinds = f"one of {', '.join(names)}, or a number" if names else "the number of a column"
    raise ValueError(f"{setting}={field!r} names no column of {str(path)!r}: give {kinds}")
