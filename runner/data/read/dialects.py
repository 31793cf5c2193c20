"""How a csv or tsv file is written: delimiter, encoding, quotes and column names, found in the file.

What a setting says is not looked for. What the file leaves open is an error with the choices, not a guess.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tiryns.runner.data.read.content import check_text
from tiryns.runner.data.read.opened import (
    DELIMITERS,
    LONGEST,
    Dialect,
    File,
    is_mostly_utf8,
    opened,
    sample_of,
    unicode_of,
)

_SAMPLE = 1 << 20  # characters that are read to find the dialect
_ROWS = 1000  # rows of these that are compared
_ENCODINGS = ("cp1252", "cp1250", "cp1251", "cp1253", "shift_jis", "gb18030", "big5", "euc_kr", "koi8-r")
_ODD = re.compile(
    r"""[¤¦¨¬¯¸¹¶†‡ƒˆ˜‰]
    |(?<=[^\W\d_])¿|[¢£¥§±²³ªº¼½¾](?=[^\W\d_])
    |(?<![\d\s])°(?=[^\W\d_])|(?<=[^\W\d_])[¡«»©®µ×÷•‚„“”](?=[^\W\d_])""",  # noqa: RUF001
    re.VERBOSE,
)
"""Signs of cp1252 that no text in it has at their place; other encodings have letters there."""

_WESTERN, _CENTRAL = (bytes(range(0x80, 0x100)).decode(name, "ignore") for name in ("cp1252", "cp1250"))

_DOUBTFUL = {sign for sign in _WESTERN.lower() if sign.isalpha()} - {*_CENTRAL}
"""Letters of cp1252 that cp1250 has not."""

_PLACED = re.compile(
    r"""[àåð]|\bþ|ã(?=[oe])|(?<=[hm])ã|æ(?=[bdfghjklmnprstvxzðþ])
    |è(?=[b-df-hj-np-tv-z])|(?<![aeioáí])è\b
    |(?<![ijkwz])ê(?=[tmslrvnpxuqg]|ch)|iên|(?<=[lvu])ê\b|(?<=oc)ê\b|(?<=eb)ê\b
    |(?<=[cdls])ì\b|(?<=[aeou])ï(?=[a-z])|ñ(?=[aeiouáéíóúü])
    |ò(?=[rpnmdl]|\b)|õ(?=[eihnudpõ])|ø(?![aeiouáéíìù]|\b)|œ(?=[ui])
    |(?<=[io])ù\b|û(?=[trlc])|\bdû|(?<=[\dn.])[ªº]""",
    re.VERBOSE,
)
"""Those where western languages have them: ñ before a vowel, while ń, which cp1250 has there, stands elsewhere."""


def dialect_of(file: File, wanted: Sequence[str] = ()) -> Dialect:
    """The dialect of a csv or tsv file, of which a task reads the columns `wanted`.

    Raises ValueError for a delimiter of several characters, and where encoding, delimiter or the names of the columns
    cannot be told.
    """
    reading = file.reading
    given = reading.delimiter
    if given is not None and len(given) != 1:
        raise ValueError(f"data.delimiter={given!r}: expected one character, such as ';'")
    encoding = file.given_encoding or find_encoding(file)
    with opened(file._replace(reading=reading._replace(encoding=encoding)), newline="") as text:
        sample = text.read(_SAMPLE)
    delimiter = given or "\t"
    if given is None and file.format == "csv":
        delimiter = _find_delimiter(file, sample, wanted)
    quoting = reading.quoting
    if quoting is None:
        quoting = file.format == "csv" or _is_quoted(sample, delimiter)
    names = reading.header and [str(name) for name in reading.header]
    if names is None and wanted:
        names = _find_names(file, _rows(sample, delimiter, quoting), wanted)
    return Dialect(delimiter, encoding, quoting, names)


def find_encoding(file: File) -> str:
    """UTF-8, UTF-16 with its mark, or cp1252 of a text in the languages of western Europe.

    Raises ValueError with the choices for bytes that may be of several encodings. A file with as much beyond ASCII that
    is UTF-8 as not is UTF-8 with errors.
    """
    if unicode := unicode_of(file):
        return unicode
    check_text(file.path)
    content = sample_of(file)
    if is_mostly_utf8(content):
        return "utf-8"
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        offset = error.start
    place = f"byte 0x{content[offset]:02x} at offset {offset}"
    fitting = [name for name in _ENCODINGS if _decodes(content, name)]
    if "cp1252" in fitting and _is_western(content):
        return "cp1252"
    choices = ", ".join(f"data.encoding={name}" for name in fitting) or "data.encoding"
    raise ValueError(
        f"{file.path} is not UTF-8 ({place}), and what it is cannot be told: set one of {choices}"
    )


def _decodes(content: bytes, encoding: str) -> bool:
    with suppress(UnicodeDecodeError):
        content.decode(encoding)
        return True
    return False


def _is_western(content: bytes) -> bool:
    """Whether bytes read as a text of western Europe in cp1252: by its words, its signs, and where letters stand.

    Letters that cp1250 has at the same byte, such as those of German, are read alike in both.
    """
    lines = (line for line in content.splitlines(keepends=True) if not line.isascii())
    text = b"".join(lines).decode("cp1252")[:_SAMPLE].lower()
    words = {word for word in re.findall(r"[^\W\d_]{2,}", text) if not word.isascii()}
    letters = "".join(words)
    beyond = len(re.sub(r"[\x00-\x7f]", "", letters))
    doubtful = sum(sign in _DOUBTFUL for sign in text)
    has_odd = 20 * len(_ODD.findall(text)) > beyond
    return 2 * beyond <= len(letters) + 1 and not has_odd and len(_PLACED.findall(text)) >= 0.8 * doubtful


def _find_delimiter(file: File, sample: str, wanted: Sequence[str]) -> str:
    """Of the delimiters in the line of names, the one that cuts most rows into as many fields as that line.

    Of those it is the one that the line has most of, then one that makes the names of wanted columns, then one that is
    not always followed by a space, as commas of a sentence are; ValueError where two are alike all the same.
    """
    line = re.sub(r'"[^"]*"', "", sample.lstrip().partition("\n")[0])
    counts = {delimiter: line.count(delimiter) for delimiter in DELIMITERS if delimiter in line}
    if len(counts) < 2:
        return next(iter(counts), ",")
    quoting = file.reading.quoting is not False
    found = {}
    for one, count in counts.items():
        rows = _rows(sample, one, quoting)
        makes_names = len(set(wanted) & {*(rows or [[]])[0]})
        found[one] = (_evenness(rows), count, makes_names, sample.count(one) > sample.count(f"{one} "))
    best = max(found.values())
    alike = [one for one in found if found[one] == best]
    if len(alike) > 1:
        choices = " or ".join(f"data.delimiter={one!r}" for one in alike)
        raise ValueError(f"{file.path} may be cut at several signs: set {choices}")
    return alike[0]


def _evenness(rows: list[list[str]]) -> float:
    """The share of rows that have as many fields as the first one."""
    lengths = [len(row) for row in rows]
    return round(sum(length == lengths[0] for length in lengths) / len(lengths), 2) if lengths else 0.0


def _rows(sample: str, delimiter: str, quoting: bool) -> list[list[str]]:
    """The first rows of a sample that hold something, without one that its end may have cut."""
    quotes: Any = csv.QUOTE_MINIMAL if quoting else csv.QUOTE_NONE
    rows: list[list[str]] = []
    csv.field_size_limit(LONGEST)
    reader = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter, quoting=quotes)
    with suppress(csv.Error, StopIteration):
        while len(rows) <= _ROWS:
            if any(map(str.strip, row := next(reader))):
                rows.append(row)
    return rows[:-1] if len(sample) == _SAMPLE and len(rows) <= _ROWS else rows


def _find_names(file: File, rows: list[list[str]], wanted: Sequence[str]) -> list[str] | None:
    """Names of the columns where the first line is a row like the others; None where it has the names.

    Raises ValueError where they cannot be told.
    """
    first, below = (rows[0] if rows else []), rows[1:]
    if not below or set(wanted) & {*first} or len({*first}) < len(first):
        return None
    columns = [[row[i] for row in below if len(row) > i] for i in range(len(first))]
    repeated = [share_repeated(column) for column in columns]
    if not any(
        name and share > 0.5 and name in column
        for name, share, column in zip(first, repeated, columns, strict=True)
    ):
        return None
    example = [*wanted, *(f"column_{i}" for i in range(len(wanted) + 1, len(first) + 1))][: len(first)]
    advice = (
        f"line 1 reads as a row ({', '.join(first)[:60]!r}), not as the names of the columns. Name all "
        f"{len(first)} in their order: set data.header=[{','.join(example)}]"
    )
    longest = [sum(map(len, column)) / max(len(column), 1) for column in columns]
    if len(first) == 2 == len(wanted):
        text, label = sorted((0, 1), key=lambda i: repeated[i])
        if repeated[label] > 0.5 > repeated[text] and longest[text] > longest[label]:
            return list(wanted) if text == 0 else list(reversed(wanted))
        advice += f" or data.header=[{','.join(reversed(wanted))}]"
    raise ValueError(f"{file.path}: {advice}")


def share_repeated(column: list[str]) -> float:
    """The share of values that a column has several times."""
    counts = Counter(column)
    return sum(number for number in counts.values() if number > 1) / max(len(column), 1)


def _is_quoted(sample: str, delimiter: str) -> bool:
    """Whether every quote of a tsv file belongs to a quoted field, so that none is part of the text."""
    whole = len(sample) < _SAMPLE
    lines = [line for line in sample.split("\n")[: None if whole else -1] if line.strip()]
    even = len({line.count(delimiter) for line in lines}) < 2
    tab = re.escape(delimiter)
    # A quoted field may span lines only if the lines do not all have as many delimiters.
    other, end = (f'[^"\n{tab}]', "") if even else ('[^"]', "" if whole else r"|\Z")
    field = f'(^|{tab})"{other}*(?:""{other}*)*(?:"(?={tab}|\r?$){end})'
    return '"' not in re.sub(field, r"\1", "\n".join(lines), flags=re.MULTILINE)
