"""Reads FASTA files: sequences, each below a header line."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from tiryns.runner.data.read.bad_rows import BadRow
from tiryns.runner.data.read.opened import LONGEST, File, open_text, too_long

_NOT_IN_SEQUENCES = re.compile(r"[^A-Za-z*.\-\s]")

Lines = list[tuple[int, str]]
"""The header of a record and the lines of its sequence, with their numbers."""


def fasta(file: File) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields the line (`line 7`) and the record: `id`, the header's first word; `text`, the sequence without white space.

    Empty lines and comments, which begin with `;`, are left out.

    Raises:
        ValueError: a line before the first header, a header without a sequence, or a character that no sequence has.
    """
    with open_text(file) as text:
        for lines in _records(text, file.path):
            with file.bad.row():
                yield f"line {lines[0][0]}", _record(lines, file.path)


def _records(text: Iterable[str], path: Path) -> Iterator[Lines]:
    """Yields the lines of each record."""
    lines: Lines = []
    length = 0
    numbered_lines = ((number, line.strip()) for number, line in enumerate(text, 1))
    for number, line in chain(numbered_lines, [(0, ">")]):
        if line.startswith(">") and lines:
            yield lines
            lines, length = [], 0
        if line and not line.startswith(";"):
            lines.append((number, line))
            length += len(line)
        if length > LONGEST:
            raise too_long(path, "a sequence")


def _record(lines: Lines, path: Path) -> dict[str, str]:
    """Returns the record of some lines; BadRow names the line that is wrong."""
    (first, header), *rest = lines
    if not header.startswith(">"):
        problem = f"expected a header such as '>name', found {header!r:.40}"
        raise BadRow(f"{path}, line {first}", problem, "no header")
    for number, line in rest:
        if wrong := _NOT_IN_SEQUENCES.search(line):
            problem = f"{wrong[0]!r} in a sequence; expected letters, gaps (- or .) and stops (*) alone"
            raise BadRow(f"{path}, line {number}", problem, "no sequence")
    name = header[1:].strip()
    if not rest:
        raise BadRow(f"{path}, line {first}", f"the record {name!r:.40} has no sequence", "no sequence")
    return {"id": (name.split() or [""])[0], "text": "".join("".join(line.split()) for _, line in rest)}
