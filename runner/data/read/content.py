"""The bytes of a file, unpacked if it is compressed: their maximum number, and whether they can be text at all."""

import codecs
import io
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
"""Compressions of text files by their endings; the ending before gives the format."""

UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""The marks that files in UTF-16 begin with."""

_TOLD_BY = 1 << 13
"""The number of bytes at the start of a file that decide whether it is text."""


_FREE = 1 << 28
"""Bytes that any file may unpack to."""

_TIMES = 256
"""Additional bytes for each byte on disk. Text is compressed 3 to 20 times; text with constant columns, a bit more."""


def most_unpacked(path: Path) -> int:
    """Returns the most bytes that a file of its size may unpack to: a bomb of a kilobyte unpacks to gigabytes."""
    return _FREE + _TIMES * path.stat().st_size


def unpacks_to_more(path: Path) -> ValueError:
    """Returns the error for a file beyond `most_unpacked`."""
    return ValueError(
        f"{path} has {path.stat().st_size:,} bytes and unpacks to more than {most_unpacked(path):,}, as no real data "
        "does; if it is your file, write it as jsonl"
    )


class _Unpacked(io.RawIOBase):
    """The bytes of a compressed file; reading more than `most_unpacked` is an error."""

    def __init__(self, path: Path, compression: str) -> None:
        import pyarrow

        self._path, self._budget = path, most_unpacked(path)
        self._stream = pyarrow.input_stream(str(path), compression=compression)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        count = int(self._stream.readinto(buffer))
        self._budget -= count
        if self._budget < 0:
            raise unpacks_to_more(self._path)
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()


def binary(path: Path) -> BinaryIO:
    """Opens the bytes of a file, unpacked if its ending names a compression."""
    if path.suffix.lower() not in COMPRESSED:
        return open(path, "rb")
    return io.BufferedReader(_Unpacked(path, COMPRESSED[path.suffix.lower()]), 1 << 20)


def start_of(path: Path, num_bytes: int = 3) -> bytes:
    """Returns the first bytes of a file, unpacked; ValueError names a damaged compression."""
    try:
        with binary(path) as content:
            return bytes(content.read(num_bytes))
    except OSError as error:
        raise ValueError(f"{path} is no readable {path.suffix[1:]} file: {error}") from error


def check_text(path: Path) -> None:
    """Raises ValueError for a zip archive, and for a file with many zero bytes, unless it begins with UTF-16's mark."""
    start = start_of(path, _TOLD_BY)
    if start.startswith(b"PK\x03\x04"):
        raise ValueError(
            f"{path} is no text, but a zip archive, as xlsx files are: unpack it, or save the sheet as csv"
        )
    zeros = [offset for offset, byte in enumerate(start) if byte == 0]
    if 100 * len(zeros) <= len(start) or start[:2] in UTF_16:
        return
    odd = sum(offset % 2 for offset in zeros)
    wide = 10 * max(odd, len(zeros) - odd) > 9 * len(zeros) and 4 * len(zeros) > len(start)
    advice = (
        f", as in UTF-16 without its mark: set data.encoding=utf-16-{'le' if odd else 'be'}" if wide else ""
    )
    raise ValueError(f"{path} is no text: {len(zeros):,} of its first {len(start):,} bytes are zero{advice}")


def likely_encodings(content: bytes) -> list[str]:
    """Returns the encodings that fit bytes, the likeliest first."""
    from charset_normalizer import from_bytes

    lines = b"".join(line for line in content.splitlines(keepends=True) if not line.isascii())[: 1 << 20]
    fitting = {  # a match stands for all that decode to the same text
        name: (match.chaos, -match.coherence, _ENCODINGS.index(name))
        for match in from_bytes(lines, cp_isolation=_ENCODINGS)
        for name in match.could_be_from_charset
    }
    names = sorted(fitting, key=lambda name: fitting[name])
    return [*names, *(name for name in _ENCODINGS if name not in names and decodes(content, name))]


_ENCODINGS = ["cp1252", "cp1250", "cp1251", "cp1253", "shift_jis", "gb18030", "big5", "euc_kr", "koi8_r"]


def decodes(content: bytes, encoding: str) -> bool:
    """Whether bytes are text of an encoding; False for unknown encodings, for which opening the file raises an error."""
    with suppress(UnicodeDecodeError, LookupError):
        content.decode(encoding)
        return True
    return False


DICTIONARY_PAGE = 2
OF_DICTIONARY = (2, 8)
"""Encodings that store values as indices of a dictionary."""

DELTA_BYTE_ARRAY = 7
"""The encoding that omits the prefix that a value shares with the previous value."""

_HEADER = 1 << 16
"""Bytes of the longest header, which may hold the smallest and the largest value of its page."""


def most_of_chunk(path: Path, chunk: object, width: int) -> tuple[int, int]:
    """Returns the most bytes that all values of a column chunk may take, and the most bytes of one value.

    Both follow from the page headers that pyarrow reads, in thrift's compact protocol (PageHeader of parquet.thrift). The
    sums at the end of a file may be wrong, and they leave out dictionaries: with a dictionary, a page of a few bytes may
    repeat a long value a million times. `width` is the least size of a value. Raises ValueError for a damaged header.
    """
    total = longest = dictionary = 0
    for header in _headers(path, chunk):
        size, counts = header[2], header.get(5) or header.get(8) or {}
        longest = max(longest, size)
        if header[1] == DICTIONARY_PAGE:
            dictionary = size - 4 * (header.get(7, {}).get(1, 1) - 1)  # others have a length at least
            total += size
            continue
        values, encoding = counts.get(1, 0), counts.get(4 if 8 in header else 2, 0)
        each = {DELTA_BYTE_ARRAY: size, **dict.fromkeys(OF_DICTIONARY, dictionary)}.get(encoding, 0)
        total += max(size, values * max(each, width))
    return total, max(longest, width)


def _headers(path: Path, chunk: Any) -> Iterator[dict[int, Any]]:
    starts = [chunk.data_page_offset]
    starts += [chunk.dictionary_page_offset] if chunk.has_dictionary_page else []
    at, stop = min(starts), min(starts) + chunk.total_compressed_size
    with open(path, "rb") as file:
        while at < stop and chunk.num_values:
            file.seek(at)
            header = _struct(file, 0)
            if not {1, 2, 3} <= header.keys() or min(header[2], header[3]) < 0:
                raise ValueError(f"{path} is no readable parquet file: it has no page at offset {at}")
            yield header
            at = file.tell() + header[3]


def _struct(file: BinaryIO, depth: int) -> dict[int, Any]:
    """Returns the values of a thrift struct by field number; only bools, integers and structs are parsed."""
    fields, number = dict[int, Any](), 0
    while (head := _byte(file)) and depth < 9:
        number = number + (head >> 4) if head >> 4 else _integer(file)
        fields[number] = _value(file, head & 15, depth)
    return fields


def _value(file: BinaryIO, kind: int, depth: int) -> Any:
    """Reads a value of a struct; values other than bools, integers and structs are skipped."""
    if kind in (1, 2):
        return kind == 1
    if kind in (4, 5, 6):
        return _integer(file)
    if kind == 12:
        return _struct(file, depth + 1)
    length = {3: 1, 7: 8}[kind] if kind in (3, 7) else _varint(file) if kind == 8 else None
    if length is None or length > _HEADER:
        raise ValueError(f"{file.name} is no readable parquet file: a header of a page is damaged")
    return file.read(length)


def _integer(file: BinaryIO) -> int:
    number = _varint(file)
    return number >> 1 ^ -(number & 1)


def _varint(file: BinaryIO) -> int:
    number = shift = 0
    while (byte := _byte(file)) > 127 and shift < 63:
        number, shift = number | (byte & 127) << shift, shift + 7
    return number | byte << shift


def _byte(file: BinaryIO) -> int:
    return (file.read(1) or b"\0")[0]
