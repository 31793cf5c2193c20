"""The text of a file: unpacked if it is compressed, decoded as a setting, its dialect or its byte-order mark says."""

import codecs
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, TextIO

from tiryns.conf.data.common import Tables
from tiryns.runner.data.read.bad_rows import RAISED, AdvisedError, BadRows
from tiryns.runner.data.read.content import (
    COMPRESSED,
    UTF_16,
    binary,
    check_text,
    decodes,
    likely_encodings,
    start_of,
)

TagColumns = Sequence[object] | Mapping[str, object] | str | None
"""Columns of labels: a list, one text with commas, or a mapping from names in the model to columns."""


class Reading(NamedTuple):
    """Settings for reading files, by the fields of `tiryns.conf.data.common`.

    Example:
        >>> Reading(delimiter=";", encoding="latin-1").format
        'auto'
    """

    format: str = "auto"
    delimiter: str | None = None
    encoding: Any = None
    quoting: bool | None = None
    header: list[Any] | None = None
    word_field: int | str = 0
    tag_field: int | str | None = None
    tag_columns: TagColumns = None


class OfRun(str):
    """The encoding or format in which a run read its files; a later file's ending, mark or UTF-8 content overrides it.

    Example:
        >>> OfRun("latin-1")
        'latin-1'
    """


def of_run(settings: dict[str, Any]) -> dict[str, Any]:
    """Returns the data settings of a run for reading other files: encoding and format become `OfRun`."""
    values = {name: settings.get(name) for name in ("encoding", "format")}
    return settings | {n: OfRun(value) for n, value in values.items() if value and isinstance(value, str)}


AS_FOUND = Reading()
"""The default: the names and contents of files decide how they are read."""


def reading_of(settings: Tables) -> Reading:
    """Returns the part of a data set's settings that says how files are read."""
    return Reading(**{name: getattr(settings, name) for name in Reading._fields if hasattr(settings, name)})


def named_columns(value: TagColumns) -> dict[str, Any]:
    """Returns the columns by the names that the model gives them.

    Example:
        >>> named_columns(["upos", "ner"]), named_columns("upos,ner"), named_columns({"pos": "upos"})
        ({'upos': 'upos', 'ner': 'ner'}, {'upos': 'upos', 'ner': 'ner'}, {'pos': 'upos'})
    """
    columns = value.split(",") if isinstance(value, str) else value or {}
    by_name = dict(columns) if isinstance(columns, Mapping) else {str(one): one for one in columns}
    if not by_name or len(by_name) < len(columns):
        raise ValueError(
            f"data.tag_columns={value!r}: expected different columns of labels, such as [upos,ner], or columns by names, "
            "such as {pos: upos, ner: ner}"
        )
    if wrong := next((name for name in by_name if not re.fullmatch(r"[\w.:-]+", str(name))), None):
        raise ValueError(
            f"data.tag_columns: {wrong!r} has signs other than letters, digits and any of _.:- in it; give it another "
            f"name: {{tags: {wrong!r}}}"
        )
    return {str(name): column for name, column in by_name.items()}


DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
"""Delimiters that are recognised in csv files."""

_SAMPLED = 1 << 24
"""Bytes of a table that are read to find its encoding."""

is_utf8 = re.compile(r"utf[-_]?8([-_]sig)?", re.IGNORECASE).fullmatch
"""Whether an encoding is UTF-8 by one of its names."""

LONGEST = 1 << 25
"""Characters of the longest line, and of the longest document: a file without ends of lines would fill the memory."""


class Dialect(NamedTuple):
    """The dialect of a table; `names` are its columns if the first line is data and not a header.

    Example:
        >>> Dialect(";", "cp1252", True, None).describe()
        'semicolon, cp1252, header'
    """

    delimiter: str
    encoding: str
    quoting: bool
    names: list[str] | None

    def describe(self) -> str:
        """Returns the dialect in words."""
        names = "header" if self.names is None else f"no header: {', '.join(self.names)}"
        quotes = [] if self.quoting else ["quotes are text"]
        encoding = self.encoding.removesuffix("-sig")
        return ", ".join([DELIMITERS.get(self.delimiter, repr(self.delimiter)), encoding, *quotes, names])


class File(NamedTuple):
    """A file, its format by name, and how it is read."""

    path: Path
    format: str
    reading: Reading
    lone_object: bool = False
    """Whether a json file with a single object holds one row, not columns."""
    span: tuple[int, int | None] | None = None
    """The part to read: bytes of a text, row groups of parquet, batches of arrow; None is all."""
    dialect: Dialect | None = None
    """The dialect of a csv or tsv file, once known."""
    bad: BadRows = RAISED
    """The handling of rows that cannot be used."""

    @property
    def given_encoding(self) -> str | None:
        """The encoding of the setting; None if unset, or if it is an `OfRun` and the file is UTF-8 or marked UTF-16."""
        name = self.reading.encoding
        return None if isinstance(name, OfRun) and _is_unicode(self, name) else name and str(name)

    @property
    def encoding(self) -> str:
        """The encoding: of the setting, else of the dialect, else of the mark, else UTF-8."""
        return self.given_encoding or (self.dialect.encoding if self.dialect else self.mark() or "utf-8-sig")

    def mark(self) -> str | None:
        """Returns the encoding of a table's byte-order mark: UTF-16, as in spreadsheets, or UTF-8; None without one."""
        if self.format not in ("csv", "tsv"):
            return None
        start = start_of(self.path)
        if start[:2] in UTF_16:
            return "utf-16"
        return "utf-8-sig" if start == codecs.BOM_UTF8 else None

    def sample(self) -> bytes:
        """Returns the first lines, unpacked; ValueError names a damaged compression."""
        content = start_of(self.path, _SAMPLED)
        return content if len(content) < _SAMPLED else content[: content.rfind(b"\n") + 1]

    def wrong_byte(self, text: str) -> str:
        """Returns a message on a byte that was not decoded; empty if there is none, or if decoding raises errors."""
        match = _ESCAPED.search(text) if self.bad.skip else None
        return f"byte 0x{ord(match[0]) - 0xDC00:02x} is not {self.encoding}" if match else ""


@contextmanager
def open_text(file: File, newline: str | None = "\n") -> Iterator[TextIO]:
    """Yields the text of a file, with `newline` as in `open`; ValueError names a wrong byte or a damaged compression.

    Where bad rows are left out, wrong bytes become the characters that `File.wrong_byte` finds.
    """
    path, inside = file.path, bool(file.span and file.span[0])
    encoding = file.encoding
    if is_utf8(encoding):  # a byte-order mark is one at the start of a file alone
        encoding = "utf-8" if inside else "utf-8-sig"
    is_compressed = path.suffix.lower() in COMPRESSED
    try:
        has_zeros = b"\0" in "a".encode(encoding)
    except LookupError:
        problem = f"data.encoding={encoding!r} is none that Python knows"
        raise ValueError(f"{problem}; give one such as utf-8, utf-16 or latin-1") from None
    if not (has_zeros or inside) and path.is_file():  # a pipe can be read once
        check_text(path)
    errors = "surrogateescape" if file.bad.skip else "strict"
    try:
        with _bytes(file) as content, _Lines(content, encoding, errors, newline=newline) as text:
            text.path = path
            try:
                yield text
            except UnicodeDecodeError as error:  # in what was read last
                offset = None if is_compressed else content.tell() - len(error.object) + error.start
                raise _wrong_byte(file, encoding, error, offset) from None
    except OSError as error:
        if not is_compressed:
            raise
        raise ValueError(f"{path} is no readable {path.suffix[1:]} file: {error}") from error


class _Lines(io.TextIOWrapper):
    """A text that raises an error at a line longer than `LONGEST`, before it reads the whole line."""

    path: Path

    def __next__(self) -> str:  # type: ignore[override]
        line = self.readline(LONGEST + 1)
        if len(line) > LONGEST:
            raise too_long(self.path, "a line")
        if not line:
            raise StopIteration
        return line


def too_long(path: Path, unit: str) -> ValueError:
    """Returns the error for a line or a document beyond `LONGEST`."""
    return ValueError(
        f"{path} holds {unit} of more than {LONGEST:,} characters: is it text with ends of lines? Split it"
    )


_ESCAPED = re.compile("[\udc80-\udcff]")


def _wrong_byte(file: File, encoding: str, error: UnicodeDecodeError, offset: int | None) -> AdvisedError:
    """Returns the error for a byte that cannot be decoded."""
    name = "UTF-8" if is_utf8(encoding) else encoding
    place = "" if offset is None else f" at offset {offset}"
    if offset is not None and file.span is None:
        with open(file.path, "rb") as whole:
            parts = (whole.read(min(_SAMPLED, offset - start)) for start in range(0, offset, _SAMPLED))
            number = 1 + sum(part.count(b"\n") for part in parts)
        place += f", line {number}"
    likely = [] if is_mostly_utf8(content := file.sample()) else likely_encodings(content)[:1]
    hint = f"={likely[0]}, where other files are UTF-8 'data.encoding=[utf-8,{likely[0]}]'" if likely else ""
    alternative = f"; {file.bad.setting} leaves out the rows of such bytes" if file.bad.setting else ""
    if start_of(file.path)[:2] in UTF_16:
        return AdvisedError(
            f"{file.path} is not {name}: it begins with the mark of UTF-16: set data.encoding=utf-16",
            encoding="utf-16",
        )
    return AdvisedError(
        f"{file.path} is not {name}: byte 0x{error.object[error.start]:02x}{place}. Convert it, for instance with iconv "
        f"-f {likely[0].upper() if likely else 'LATIN1'} -t UTF-8, or set data.encoding{hint}{alternative}",
        **({"encoding": ["utf-8", likely[0]]} if likely else {}),
    )


def _bytes(file: File) -> IO[bytes]:
    """Returns the bytes of a file or of its span."""
    if file.span is None:
        return binary(file.path)
    first, stop = file.span
    assert stop is not None
    with open(file.path, "rb") as whole:
        whole.seek(first)
        return io.BytesIO(whole.read(stop - first))


def with_encoding(file: File) -> File:
    """Returns the file with the first encoding of the setting's list that fits, else the last; UTF-8 becomes None."""
    encodings = file.reading.encoding
    if encodings is None or isinstance(encodings, str):
        return file
    content = file.sample()
    fitting = next((name for name in encodings if decodes(content, name)), encodings[-1])
    is_unicode = is_utf8(fitting) or file.mark()
    return file._replace(reading=file.reading._replace(encoding=None if is_unicode else fitting))


def _is_unicode(file: File, otherwise: str) -> bool:
    """Whether a file has UTF-16's mark or is UTF-8, although its encoding was set as `otherwise`."""
    content = file.sample()
    if content[:2] in UTF_16:
        return not otherwise.lower().replace("_", "-").startswith("utf-16")
    # zeros and escapes are of UTF-16 without its mark, and of encodings that need no bytes beyond ASCII
    return not re.search(b"[\x00\x1b]", content) and is_mostly_utf8(content)


def is_mostly_utf8(content: bytes) -> bool:
    """Whether bytes are UTF-8, or UTF-8 with errors: at least half of the characters beyond ASCII are valid."""
    lenient = content.decode("utf-8", "surrogateescape")
    return 2 * len(_ESCAPED.findall(lenient)) <= sum(sign > "\x7f" for sign in lenient)
