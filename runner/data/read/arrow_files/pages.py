"""What the pages of a parquet file can unpack to at most, from the headers that pyarrow reads them by.

The sums at the end of a file may be wrong, and tell nothing of dictionaries: a page of a few bytes may repeat one long
value a million times. Headers are structs of thrift's compact protocol (PageHeader of parquet.thrift).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

DICTIONARY_PAGE = 2
OF_DICTIONARY = (2, 8)
"""Encodings of values that are numbers in a dictionary."""

DELTA_BYTE_ARRAY = 7
"""The encoding of values that begin as the one before does."""

_HEADER = 1 << 16
"""Bytes of the longest header, which may hold the smallest and the largest value of its page."""


def most_of_chunk(path: Path, chunk: Any, width: int) -> tuple[int, int]:
    """Returns bytes that the values of a column chunk take at most, and those of the longest value.

    `width` is the least of a value. Raises ValueError for a damaged header.
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
    """The integers and structs of a struct, by the numbers of their fields."""
    fields, number = dict[int, Any](), 0
    while (head := _byte(file)) and depth < 9:
        number = number + (head >> 4) if head >> 4 else _integer(file)
        fields[number] = _value(file, head & 15, depth)
    return fields


def _value(file: BinaryIO, kind: int, depth: int) -> Any:
    """A value of a struct; those of other types than bool, integer and struct are passed over."""
    if kind in (1, 2):
        return kind == 1
    if kind in (4, 5, 6):
        return _integer(file)
    if kind == 12:
        return _struct(file, depth + 1)
    length = {3: 1, 7: 8}[kind] if kind in (3, 7) else _unsigned(file) if kind == 8 else None
    if length is None or length > _HEADER:
        raise ValueError(f"{file.name} is no readable parquet file: a header of a page is damaged")
    return file.read(length)


def _integer(file: BinaryIO) -> int:
    number = _unsigned(file)
    return number >> 1 ^ -(number & 1)


def _unsigned(file: BinaryIO) -> int:
    number = shift = 0
    while (byte := _byte(file)) > 127 and shift < 63:
        number, shift = number | (byte & 127) << shift, shift + 7
    return number | byte << shift


def _byte(file: BinaryIO) -> int:
    return (file.read(1) or b"\0")[0]
