"""Formats whose records are blocks of lines, with a word a line: CoNLL and CoNLL-U."""

import re
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

from tiryns.runner.data.read.bad_rows import BadRow
from tiryns.runner.data.read.opened import AS_FOUND, File, named_columns, open_text

CONLLU_FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")

FEATURED = ("feats", "misc")
"""Columns that hold features, `Case=Nom|Number=Sing`."""

_COMMENT = re.compile(r"# (\w+\s*=|id\s|newdoc\b|newpar\b)")  # `# O` is a word
_LOOKED_AT = 20
"""The number of first sentences that decide whether the first column holds words."""

_SAME = 2
"""If each sentence repeats a single word, and there are more repetitions than this, the column does not hold words."""

_NO_WORD = re.compile(r"\d+[-.]\d+")  # the number of a range of words or of an empty node


class Field(NamedTuple):
    """A column of a file by its number, or one feature of that column."""

    number: int
    feature: str = ""

    def of(self, fields: list[str]) -> str:
        """Returns the value of this field in the `fields` of a line; `_` if the feature is missing."""
        value = fields[self.number]
        if not self.feature:
            return value
        features = (one.partition("=") for one in value.strip().split("|"))
        return next((feature_value for name, _, feature_value in features if name == self.feature), "_")


def conll(file: File) -> Iterator[tuple[str, dict[str, Any]]]:
    """Returns sentences, divided by blank lines, in columns divided by tabs or white space; skips `-DOCSTART-` lines."""
    with open_text(file, newline=None) as text:
        tabs = any("\t" in line.strip() for line in islice(text, 100) if not _COMMENT.match(line))

    def parse(line: str) -> list[str] | None:
        is_comment = _COMMENT.match(line) or (tabs and line.startswith("# ") and "\t" not in line)
        if is_comment or line.startswith("-DOCSTART-"):
            return None
        return [field.strip() for field in line.split("\t")] if tabs else line.split()

    sentences = _sentences(file, parse, (), 0, -1)
    if file.reading.word_field == AS_FOUND.word_field:
        first = list(islice(sentences, _LOOKED_AT))
        _check_words(file, [row["words"] for _, row in first])
        return chain(first, sentences)
    return sentences


def _check_words(file: File, sentences: list[list[str]]) -> None:
    """Raises ValueError for a column that counts the words of each sentence, or that is constant within sentences."""
    numbers = [[*map(str, range(start, len(s) + start))] == s for s in sentences for start in (0, 1)]
    counts = 2 * sum(numbers) == len(numbers) and sum(map(len, sentences)) > 1
    same = all(len({*s}) == 1 for s in sentences) and sum(len(s) - 1 for s in sentences) > _SAME
    if counts or same:
        problem = "counts the words of a sentence" if counts else f"is {sentences[0][0]!r:.40} for all words"
        raise ValueError(
            f"{file.path}: column 0 {problem}: set data.word_field to the column of the words, such as data.word_field=1"
        )


def conllu(file: File) -> Iterator[tuple[str, dict[str, Any]]]:
    """Returns sentences of Universal Dependencies; skips the lines of multiword tokens and of empty nodes."""

    def parse(line: str) -> list[str] | None:
        fields = line.split("\t")
        return None if line.startswith("#") or _NO_WORD.fullmatch(fields[0]) else fields

    return _sentences(file, parse, CONLLU_FIELDS, "form", "upos")


def _sentences(
    file: File, parse: Callable[[str], list[str] | None], names: tuple[str, ...], *defaults: int | str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields rows of words and labels. If `names` is empty, the line of the first word gives the number of columns."""
    fields_of = {"words": _field(file, "word_field", names, defaults[0])}
    if file.reading.tag_columns:
        columns_of_tags = named_columns(file.reading.tag_columns).values()
        fields_of |= {name: _field(file, "tag_columns", names, name) for name in columns_of_tags}
    else:
        fields_of["labels"] = _field(file, "tag_field", names, defaults[1])
    numbers = [field.number for field in fields_of.values()]
    path, columns, min_columns = file.path, len(names), max(2, *(max(n + 1, -n) for n in numbers))
    sentence: dict[Any, list[str]] = {name: [] for name in fields_of}
    first, broken = 0, False
    with open_text(file, newline=None) as text:
        for number, line in enumerate(chain(text, ["\n"]), start=1):
            line = line.rstrip("\r\n")
            if not line.strip():
                if sentence["words"] and not broken:
                    yield f"line {first}", {"id": f"{path.stem}-{first}", **sentence}
                sentence, broken = {name: [] for name in fields_of}, False
            elif (fields := parse(line)) is not None:
                columns = columns or len(fields)
                first = first if sentence["words"] else number
                message, why = "", "wrong number of fields"
                if problem := file.wrong_byte(line):
                    message, why = problem, "undecodable"
                elif len(fields) != columns or columns < min_columns:
                    message = f"{len(fields)} columns where {max(columns, min_columns)} are expected"
                elif not all(fields[number].strip() for number in numbers):
                    message, why = "the word or its label is empty", "no label"
                if message and not broken:
                    file.bad.note(BadRow(f"{path}, line {number}", f"{message}: {line[:60]!r}", why))
                broken = broken or bool(message)
                for name, field in fields_of.items():
                    sentence[name].append(line if broken else field.of(fields))


def _field(file: File, setting: str, names: tuple[str, ...], default: int | str) -> Field:
    """Returns the column that a setting gives by number or name; `default` if it is unset or gives several columns."""
    value = getattr(file.reading, setting)
    field = default if value == getattr(AS_FOUND, setting) or setting == "tag_columns" else value
    if isinstance(field, int):
        return Field(field)
    name, _, feature = field.partition(".")
    if name.lower() in names and (not feature or name.lower() in FEATURED):
        return Field(names.index(name.lower()), feature)
    choices = f"one of {', '.join(names)}, a feature such as feats.Number, or a number"
    kinds = choices if names else "the number of a column"
    raise ValueError(f"data.{setting}={field!r} names no column of {str(file.path)!r}: give {kinds}")
