"""Rows of CoNLL and CoNLL-U files: one sentence each, with its words and their labels."""

import re
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

from iolaus.runner.data.read.bad_rows import BadRow
from iolaus.runner.data.read.opened import AS_FOUND, File, opened, wrong_byte

CONLLU_FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")

_COMMENT = re.compile(r"# (\w+\s*=|id\s|newdoc\b|newpar\b)")  # `# O` is a word
_NO_WORD = re.compile(r"\d+[-.]\d+")  # the number of a range of words or of an empty node


def conll(file: File) -> Iterator[tuple[str, dict[str, Any]]]:
    """Sentences in columns by white space or tabs, with blank lines between; skips `-DOCSTART-` lines."""
    with opened(file, newline=None) as text:
        tabs = any("\t" in line.strip() for line in islice(text, 100))

    def parse(line: str) -> list[str] | None:
        is_comment = _COMMENT.match(line) or (tabs and line.startswith("# ") and "\t" not in line)
        if is_comment or line.startswith("-DOCSTART-"):
            return None
        return [field.strip() for field in line.split("\t")] if tabs else line.split()

    return _sentences(file, parse, (), 0, -1)


def conllu(file: File) -> Iterator[tuple[str, dict[str, Any]]]:
    """Sentences of Universal Dependencies; skips ranges of words written as one, and empty nodes."""

    def parse(line: str) -> list[str] | None:
        fields = line.split("\t")
        return None if line.startswith("#") or _NO_WORD.fullmatch(fields[0]) else fields

    return _sentences(file, parse, CONLLU_FIELDS, "form", "upos")


def _sentences(
    file: File, parse: Callable[[str], list[str] | None], names: tuple[str, ...], *defaults: int | str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of words and labels; without `names` there are as many columns as the first word has."""
    settings = zip(("word_field", "tag_field"), defaults, strict=True)
    word, tag = (_column_number(file, setting, names, default) for setting, default in settings)
    path, columns, needed = file.path, len(names), max(2, word + 1, tag + 1, -word, -tag)
    words: list[str] = []
    labels: list[str] = []
    first, broken = 0, False
    with opened(file, newline=None) as text:
        for number, line in enumerate(chain(text, ["\n"]), start=1):
            line = line.rstrip("\r\n")
            if not line.strip():
                if words and not broken:
                    yield f"line {first}", {"id": f"{path.stem}-{first}", "words": words, "labels": labels}
                words, labels, broken = [], [], False
            elif (fields := parse(line)) is not None:
                columns = columns or len(fields)
                first = first if words else number
                problem = _problem(fields, max(columns, needed), columns, word, tag)
                if file.bad.skip and (byte := wrong_byte(line)):
                    problem = f"byte {byte} is not {file.encoding}", "undecodable"
                if problem:
                    if not broken:
                        what, why = problem
                        file.bad.note(BadRow(f"{path}, line {number}", f"{what}: {line[:60]!r}", why))
                    broken = True
                words.append(line if broken else fields[word])
                labels.append("" if broken else fields[tag])


def _problem(fields: list[str], expected: int, columns: int, word: int, tag: int) -> tuple[str, str] | None:
    """What is wrong with the fields of a line, and that in few words."""
    if len(fields) != columns or columns < expected:
        return f"{len(fields)} columns where {expected} are expected", "wrong number of fields"
    if not fields[word].strip() or not fields[tag].strip():
        return "the word or its label is empty", "no label"
    return None


def _column_number(file: File, setting: str, names: tuple[str, ...], default: int | str) -> int:
    """The number of the column that a setting gives by number or name."""
    field = getattr(file.reading, setting)
    field = default if field == getattr(AS_FOUND, setting) else field
    if isinstance(field, int):
        return field
    if field.lower() in names:
        return names.index(field.lower())
    kinds = f"one of {', '.join(names)}, or a number" if names else "the number of a column"
    raise ValueError(f"data.{setting}={field!r} names no column of {str(file.path)!r}: give {kinds}")
