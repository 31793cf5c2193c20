"""Stretches of a source that processes read side by side: bytes of text files, rows of tables, or whole files."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from tiryns.runner.data.read.arrow_files.batches import arrow_sizes
from tiryns.runner.data.read.content import COMPRESSED
from tiryns.runner.data.read.formats import ARROW, TEXTS
from tiryns.runner.data.read.opened import LONGEST, File, too_long

_LARGE = 1 << 28
"""Bytes of the largest file that one process reads whole: its token ids have to fit into memory."""


class Piece(NamedTuple):
    """Some documents of a source; those of all its pieces, one after the other, are the documents of the source.

    Example:
        >>> Piece(place=None, num_bytes=None)  # of a source that cannot be cut
        Piece(place=None, num_bytes=None)
    """

    place: Any
    """What `documents_of` of the source takes; None is the whole source."""
    num_bytes: int | None
    """Bytes on disk; None where it is unknown or too much for one process."""


WHOLE = Piece(None, None)
"""All of a source."""


def pieces_of(source: Any, num_bytes: int) -> list[Piece]:
    """Pieces of a source of about so many bytes, or all of it."""
    pieces: list[Piece] = source.pieces(num_bytes) if hasattr(source, "pieces") else [WHOLE]
    return pieces


def documents_of(source: Any, piece: Piece) -> Iterator[Any]:
    """The documents of a piece."""
    documents: Iterator[Any]
    documents = source.documents() if piece.place is None else source.documents_of(piece.place)
    return documents


def cut_file(file: File, unit: str, num_bytes: int) -> Iterator[Piece]:
    """Pieces of about so many bytes; `unit` is that of text files. The place is the file with a span."""
    size, texts = file.path.stat().st_size, file.format in TEXTS
    plain = (file.given_encoding or "utf-8").lower().replace("_", "-") in ("utf-8", "utf8", "utf-8-sig")
    packed = file.path.suffix.lower() in COMPRESSED
    by_line = file.format == "jsonl" or (texts and unit != "file")
    if file.format in ARROW:
        first, filled = 0, 0
        for number, part in enumerate(arrow_sizes(file), 1):
            filled += part
            if filled >= num_bytes:
                yield Piece(file._replace(span=(first, number)), filled)
                first, filled = number, 0
        yield Piece(file._replace(span=(first, None)), filled)
    elif (
        size > num_bytes and plain and by_line and not packed
    ):  # ends of lines are found without decoding what is before
        bounds = [0, *_bounds(file.path, size, num_bytes, blank=texts and unit == "paragraph")]
        for first, stop in pairwise(bounds):
            yield Piece(file._replace(span=(first, stop)), stop - first)
    else:
        yield Piece(file, size if size <= _LARGE else None)


def _bounds(path: Path, size: int, num_bytes: int, blank: bool) -> Iterator[int]:
    """Ascending ends of lines, or of `blank` ones, about so many bytes apart, the last at the end of the file."""
    stop = 0
    with open(path, "rb") as opened:
        while stop < size:
            opened.seek(min(stop + num_bytes, size))
            line = opened.readline(4 * LONGEST + 1)  # the rest of one
            if len(line) > 4 * LONGEST:  # no character has more than four bytes
                raise too_long(path, "a line")
            while blank and line:
                line = opened.readline()
                if not line.decode("utf-8", "replace").rstrip():
                    break
            stop = opened.tell()
            yield stop
