"""Parquet and arrow files as record batches of bounded unpacked size.

Dictionaries, runs, views and compressed buffers let a file of a kilobyte unpack to gigabytes. So sizes are computed
from the packed form before any value is unpacked.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tiryns.runner.data.read.content import most_of_chunk, most_unpacked, unpacks_to_more
from tiryns.runner.data.read.opened import File
from tiryns.runner.run.errors import reason_of

if TYPE_CHECKING:
    import pyarrow as pa

Sizes = NDArray[np.float64]
"""The number of bytes of each value."""

SMALLEST = 8
"""The least number of bytes that a value is counted as."""


def sizes_of(array: "pa.Array") -> Sizes:
    """Returns the bytes that each value of an array takes once it is unpacked."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, types = array.type, pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return sizes_of(array.storage)
    if types.is_dictionary(kind):
        return np.append(sizes_of(array.dictionary), SMALLEST)[_numbers(array.indices.fill_null(0))]
    if types.is_run_end_encoded(kind):
        runs = pa.array(np.arange(len(array.values)))
        numbers = pa.RunEndEncodedArray.from_arrays(array.run_ends, runs).slice(array.offset, len(array))
        return sizes_of(array.values)[_numbers(pc.run_end_decode(numbers))]
    smallest: Sizes = np.full(len(array), float(_width(kind) or SMALLEST))
    if _width(kind):
        return smallest
    if types.is_struct(kind):
        return sum(map(sizes_of, array.flatten()), smallest)
    if types.is_fixed_size_list(kind):
        begins = kind.list_size * np.arange(array.offset, array.offset + len(array), dtype=np.int64)
        return smallest + _sums(array.values, begins, begins + kind.list_size)
    if types.is_union(kind):
        raise pa.ArrowNotImplementedError(f"values of type {kind} are not read")
    if types.is_nested(kind):
        begins = _numbers(array.offsets)
        if "view" in str(kind):
            return smallest + _sums(array.values, begins, begins + _numbers(array.sizes))
        return smallest + _sums(array.values, begins[:-1], begins[1:])
    if kind in (pa.string_view(), pa.binary_view()):
        lengths = np.frombuffer(array.buffers()[1], np.int32)[::4]
        return np.asarray(smallest + lengths[array.offset :][: len(array)])
    return np.asarray(smallest + _numbers(pc.binary_length(array).fill_null(0)))


def _sums(values: "pa.Array", begins: NDArray[np.int64], ends: NDArray[np.int64]) -> Sizes:
    """Returns the bytes of the values of each list i, which are `values[begins[i]:ends[i]]`."""
    if width := _width(values.type):
        return np.asarray(float(width) * (ends - begins))
    first, last = begins.min(initial=len(values)), ends.max(initial=0)
    before = np.append(0.0, np.cumsum(sizes_of(values.slice(first, max(last - first, 0)))))
    return np.asarray(before[ends - first] - before[begins - first])


def _width(kind: "pa.DataType") -> int | None:
    """Returns the bytes of each value of a type; None if values differ in length."""
    import pyarrow as pa

    with suppress(ValueError):
        if not pa.types.is_dictionary(kind):
            return SMALLEST if pa.types.is_null(kind) else max(SMALLEST, kind.bit_width // 8)
    return None


def _numbers(array: "pa.Array") -> NDArray[np.int64]:
    return np.asarray(array.to_numpy(zero_copy_only=False)).astype(np.int64)


_BATCH = 1 << 25
"""The most bytes that the values of a batch may take, unless one row alone takes more."""

_ROWS = 1 << 16
"""The most rows of a batch."""


def arrow_batches(file: File, columns: list[str] | None = None) -> Iterator["pa.Table | pa.RecordBatch"]:
    """Yields an empty table with the schema, then the batches of a file (or its span) with all or some `columns`.

    Raises ValueError for a damaged file, and for one that unpacks to more than `most_unpacked`.
    """
    with _readable(file):
        budget = float(most_unpacked(file.path))
        batches = _parquet(file, columns) if file.format == "parquet" else _arrow(file, columns)
        yield next(batches)
        for whole in batches:
            for start in range(0, whole.num_rows, _ROWS):
                batch = whole.slice(start, _ROWS)
                ends = np.cumsum(sum(map(sizes_of, batch.columns), np.zeros(len(batch))))
                budget -= ends[-1]
                if budget < 0:
                    raise unpacks_to_more(file.path)
                first = 0
                while first < len(batch):
                    taken = ends[first - 1] if first else 0.0
                    stop = max(first + 1, int(np.searchsorted(ends, taken + _BATCH, "right")))
                    yield batch.slice(first, stop - first)
                    first = stop


def arrow_sizes(file: File) -> list[int]:
    """Returns the bytes of each row group of a parquet file, or of each batch of an arrow file."""
    with _readable(file):
        if file.format == "parquet":
            import pyarrow.parquet as pq

            metadata = pq.read_metadata(file.path)
            return [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
        return [batch.nbytes for batch in islice(_arrow(file, None), 1, None)]


@contextmanager
def _readable(file: File) -> Iterator[None]:
    """Turns each error that pyarrow raises for a damaged file into a ValueError with the name of the file."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, MemoryError, OverflowError, struct.error) as error:
        raise ValueError(f"{file.path} is no readable {file.format} file: {reason_of(error)}") from error


def _parquet(file: File, columns: list[str] | None) -> Iterator["pa.Table | pa.RecordBatch"]:
    """Yields an empty table, then the batches of the row groups; columns that may be bombs stay dictionary-encoded."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(file.path) as parquet:
        schema, metadata = parquet.schema_arrow, parquet.metadata
    yield schema.empty_table()
    leaves = [metadata.schema.column(i) for i in range(metadata.num_columns)]
    for number in range(metadata.num_row_groups)[slice(*file.span or (None,))]:
        group, dictionary_columns, row = metadata.row_group(number), [], 1.0
        for i, leaf in enumerate(leaves):
            if columns is not None and not f"{leaf.path}.".startswith(tuple(f"{name}." for name in columns)):
                continue
            total, longest = most_of_chunk(file.path, group.column(i), max(leaf.length, SMALLEST))
            if total <= most_unpacked(file.path):
                row += total / max(group.num_rows, 1)
            elif leaf.physical_type != "BYTE_ARRAY" or longest > most_unpacked(file.path):
                raise unpacks_to_more(file.path)
            elif "DELTA_BYTE_ARRAY" in group.column(i).encodings or "extension<" in str(schema):
                row += longest  # pyarrow has no dictionary of these
            else:
                dictionary_columns.append(leaf.path)
        with pq.ParquetFile(file.path, read_dictionary=dictionary_columns) as parquet:
            rows = max(1, min(_ROWS, int(_BATCH / row)))  # as many as fit if each takes what the average may
            yield from parquet.iter_batches(rows, columns=columns, row_groups=[number])


def _arrow(file: File, columns: list[str] | None) -> Iterator["pa.Table | pa.RecordBatch"]:
    """Yields an empty table, then the batches; arrow's file format and stream format are read in the same way."""
    import pyarrow as pa

    with pa.memory_map(str(file.path)) as memory:
        start = 8 if memory.read(6) == b"ARROW1" else 0
        memory.seek(0)
        content = memory.read_buffer()[start:]
        if _unpacked_size(content) > most_unpacked(file.path):
            raise unpacks_to_more(file.path)
        reader = pa.ipc.open_stream(content)
        yield reader.schema.empty_table()
        for batch in islice(reader, *file.span or (None,)):
            selection = batch if columns is None else batch.select(columns)
            selection.validate(full=True)  # offsets of a damaged file ask for any amount of memory
            yield selection


def _unpacked_size(stream: "pa.Buffer") -> int:
    """Returns the bytes that the compressed buffers of a stream unpack to, as the first eight bytes of each say."""
    import pyarrow as pa

    total, messages = 0, pa.ipc.MessageReader.open_stream(stream)
    while True:
        try:
            message = messages.read_next_message()
        except StopIteration:
            return total
        if message.type in ("record batch", "dictionary"):
            total += sum(
                struct.unpack_from("<q", message.body, offset)[0]
                for offset, length in _compressed_buffers(
                    bytes(message.metadata), message.type == "dictionary"
                )
                if length > 0
            )


def _compressed_buffers(message: bytes, of_dictionary: bool) -> Iterator[tuple[int, int]]:
    """Yields offset and length of each compressed buffer of a message, from its flatbuffer (Arrow's Message.fbs)."""

    def number(at: int, kind: str = "<i") -> int:
        return int(struct.unpack_from(kind, message, at)[0])

    def follow(table: int, field: int) -> int | None:
        """Returns the position that a field of a table points to; None if it is unset."""
        fields = table - number(table)
        slot = number(fields + 4 + 2 * field, "<H") if 4 + 2 * field < number(fields, "<H") else 0
        return table + slot + number(table + slot) if slot else None

    batch = follow(number(0), 2)
    if of_dictionary and batch is not None:
        batch = follow(batch, 1)
    if batch is None or follow(batch, 3) is None or (buffers := follow(batch, 2)) is None:
        return
    yield from struct.iter_unpack("<qq", message[buffers + 4 :][: 16 * number(buffers)])
