"""The unit in which annotations count their offsets, told by the text that they carry.

Python counts characters. A browser, and so Label Studio, counts UTF-16 units, of which an emoji has two. Some services
count bytes of UTF-8. An annotation that carries its own text shows which unit its file counts.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

log = logging.getLogger("tiryns")

CHARACTERS = "characters"
"""The unit of offsets where nothing tells another."""

_UNITS = {CHARACTERS: ("utf-32-le", 4), "UTF-16 units": ("utf-16-le", 2), "bytes of UTF-8": ("utf-8", 1)}

ALONE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Kana and ideographs, which no spaces divide: each is a word."""

_WITHIN_WORD = re.compile(rf"(?<=[^\W{ALONE}])(?=[^\W{ALONE}])")
_SPACE = re.compile(r"(?:\\[nrt]|\s)+")  # Label Studio writes the end of a line as two characters


class Mark(NamedTuple):
    """An annotation as its file has it; without an `end` it is as long as its own `text`."""

    start: int
    end: int | None
    label: str = ""
    text: str | None = None

    def place(self, text: str, unit: str) -> tuple[int, int] | None:
        """The characters of a text that the offsets mean in a unit; None for offsets beyond it or within a character."""
        start = _character(text, self.start, unit)
        if self.end is not None:
            end = _character(text, self.end, unit)
        else:
            end = None if start is None else start + len(self.text or "")
        return None if start is None or end is None or not start < end <= len(text) else (start, end)

    def agrees(self, found: str) -> bool:
        """Whether a part of the text is the annotated one, whatever the white space; also without a text to compare."""
        return self.text is None or _spaced(self.text) == _spaced(found)


def offset_units(
    annotated: Iterable[tuple[str, str, Sequence[Mark]]], by_characters: bool = False
) -> dict[str, str]:
    """The unit of each file, by `file_of`, from each row's place, text and annotations; logs units other than characters.

    Annotations with a text of their own decide; where a file has none, those that a unit lets end within a word, or
    beyond the text. The unit that fits most of them is taken; `by_characters` takes characters in spite of them.
    """
    files: dict[str, list[tuple[str, str, Mark]]] = {}
    for where, text, marks in annotated:
        files.setdefault(file_of(where), []).extend((where, text, mark) for mark in marks)
    units = {file: _unit(file, marks) for file, marks in files.items()}
    if by_characters and (
        other := [file or "the data" for file, unit in units.items() if unit != CHARACTERS]
    ):
        log.warning("offsets in %s are counted as characters still, as in training before", ", ".join(other))
    return dict.fromkeys(units, CHARACTERS) if by_characters else units


def file_of(where: str) -> str:
    """The file of a row's place.

    Example:
        >>> file_of("zh.json, item 3")
        'zh.json'
    """
    return where.rpartition(", ")[0]


def _unit(file: str, marks: Sequence[tuple[str, str, Mark]]) -> str:
    carry_text = any(mark.text is not None for _, _, mark in marks)
    counts, first = Counter[str](), dict[str, tuple[str, str, Mark]]()
    for where, text, mark in marks:
        if not text.isascii() and (mark.text is not None) == carry_text:
            fitting = []
            for unit in _UNITS:  # in which it has its own text, or cuts no word
                place = mark.place(text, unit)
                cuts = mark.text is None and place and any(_WITHIN_WORD.match(text, at) for at in place)
                if place and mark.agrees(text[slice(*place)]) and not cuts:
                    fitting.append(unit)
            counts.update(fitting)
            for unit in () if CHARACTERS in fitting else fitting:
                first.setdefault(unit, (where, text, mark))
    unit = max(_UNITS, key=counts.__getitem__)
    if unit != CHARACTERS:
        where, text, mark = first[unit]
        start, end = mark.place(text, unit) or (0, 0)
        told = "the annotated texts" if carry_text else "the ends of words"
        log.info(
            "offsets%s count %s, by %s: %d is character %d, where %.40r begins (%s)",
            f" in {file}" if file else "", unit, told, mark.start, start, text[start:end], where,
        )  # fmt: skip
    return unit


def _character(text: str, offset: int, unit: str) -> int | None:
    """The number of the character that begins at an offset; None where none does."""
    codec, size = _UNITS[unit]
    if offset < 0:
        return None
    if unit == CHARACTERS or text.isascii():
        return offset if offset <= len(text) else None
    before = text.encode(codec, "surrogatepass")[: offset * size]
    try:
        number = len(before.decode(codec, "surrogatepass"))
    except UnicodeDecodeError:
        return None
    begins = len(text[:number].encode(codec, "surrogatepass"))
    return number if begins == offset * size else None


def _spaced(text: str) -> str:
    return _SPACE.sub(" ", text).strip()
