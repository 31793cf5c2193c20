"""Rows from the columns of CoNLL and CoNLL-U files: one sentence each, with its words and their labels."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

CONLLU_FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")

_COMMENT = re.compile(r"# (\w+\s*=|id\s|newdoc\b|newpar\b)")
"""What a line about a sentence begins with; `# O` is a word."""

_NO_WORD = re.compile(r"\d+[-.]\d+")
"""What numbers a range of words or an empty node."""


class Row(NamedTuple):
    """One labelled example, and where it stands: `train.csv, line 7`."""

    where: str
    values: Mapping[str, Any]


def read_conll(path: Path, word_field: int | str, tag_field: int | str | None) -> Iterator[Row]:
    """Columns by white space or tabs, a blank line between sentences; `-DOCSTART-` lines are passed over."""

    def parse(line: str) -> list[str] | None:
        if (
            line.startswith("-DOCSTART-")
            or _COMMENT.match(line)
            or (line.startswith("# ") and tabs and "\t" not in line)
        ):
            return None
        return [field.strip() for field in line.split("\t")] if tabs else line.split()

    with open(path, encoding="utf-8-sig") as file:
        tabs = any("\t" in line.strip() for line, _ in zip(file, range(100), strict=False))
    word = _column_number(word_field, (), "data.word_field", path)
    tag = -1 if tag_field is None else _column_number(tag_field, (), "data.tag_field", path)
    yield from _sentences(path, parse, word, tag)


def read_conllu(path: Path, word_field: int | str, tag_field: int | str | None) -> Iterator[Row]:
    """Universal Dependencies; ranges of words written as one and empty nodes are passed over."""

    def parse(line: str) -> list[str] | None:
        if line.startswith("#"):
            return None
        fields = line.split("\t")
        return None if _NO_WORD.fullmatch(fields[0]) else fields

    word = _column_number("form" if word_field == 0 else word_field, CONLLU_FIELDS, "data.word_field", path)
    tag = _column_number("upos" if tag_field is None else tag_field, CONLLU_FIELDS, "data.tag_field", path)
    yield from _sentences(path, parse, word, tag, len(CONLLU_FIELDS))


def _sentences(
    path: Path,
    parse: Callable[[str], list[str] | None],
    word: int,
    tag: int,
    columns: int | None = None,
) -> Iterator[Row]:
    words: list[str] = []
    labels: list[str] = []
    first = 0
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate([*file, "\n"], start=1):
            line = line.rstrip("\r\n")
            if not line.strip():
                if words:
                    values = {"id": f"{path.stem}-{first}", "words": words, "labels": labels}
                    yield Row(f"{path}, line {first}", values)
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
