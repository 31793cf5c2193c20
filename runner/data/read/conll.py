"""Rows from the columns of CoNLL and CoNLL-U files: one sentence each, with its words and their labels."""

import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from iolaus.runner.data.read.opened import AS_FOUND, File, opened

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

    with opened(file, newline=None) as text:
        tabs = any("\t" in line.strip() for line, _ in zip(text, range(100), strict=False))
    word, tag = _column_number(file, "word_field", (), 0), _column_number(file, "tag_field", (), -1)
    yield from _sentences(file, parse, word, tag)


def conllu(file: File) -> Iterator[tuple[str, dict[str, Any]]]:
    """Universal Dependencies; ranges of words written as one and empty nodes are passed over."""

    def parse(line: str) -> list[str] | None:
        if line.startswith("#"):
            return None
        fields = line.split("\t")
        return None if _NO_WORD.fullmatch(fields[0]) else fields

    word = _column_number(file, "word_field", CONLLU_FIELDS, "form")
    tag = _column_number(file, "tag_field", CONLLU_FIELDS, "upos")
    yield from _sentences(file, parse, word, tag, len(CONLLU_FIELDS))


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


def _column_number(file: File, setting: str, names: tuple[str, ...], usual: int | str) -> int:
    """The number of the column that a setting gives by number or name; where it gives none, of the usual one."""
    field = getattr(file.reading, setting)
    field = usual if field == getattr(AS_FOUND, setting) else field
    if isinstance(field, int):
        return field
    if field.lower() in names:
        return names.index(field.lower())
    kinds = f"one of {', '.join(names)}, or a number" if names else "the number of a column"
    raise ValueError(f"data.{setting}={field!r} names no column of {str(file.path)!r}: give {kinds}")
