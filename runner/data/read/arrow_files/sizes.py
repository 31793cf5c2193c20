"""Bytes that the values of an arrow array take once they are unpacked, from the packed form."""

from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

Sizes = NDArray[np.float64]
"""Bytes of values."""

SMALLEST = 8
"""Bytes that the smallest value is counted as."""


def sizes_of(array: Any) -> Sizes:
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
        numbered = pa.RunEndEncodedArray.from_arrays(array.run_ends, runs).slice(array.offset, len(array))
        return sizes_of(array.values)[_numbers(pc.run_end_decode(numbered))]
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


def _sums(values: Any, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> Sizes:
    """Bytes of the values of each list, which has those from where it begins to where it ends."""
    if width := _width(values.type):
        return np.asarray(float(width) * (ends - begins))
    first, last = begins.min(initial=len(values)), ends.max(initial=0)
    before = np.append(0.0, np.cumsum(sizes_of(values.slice(first, max(last - first, 0)))))
    return np.asarray(before[ends - first] - before[begins - first])


def _width(kind: Any) -> int | None:
    """Bytes of any value of a type; None where values differ in length."""
    import pyarrow as pa

    with suppress(ValueError):
        if not pa.types.is_dictionary(kind):
            return SMALLEST if pa.types.is_null(kind) else max(SMALLEST, kind.bit_width // 8)
    return None


def _numbers(array: Any) -> NDArray[np.int64]:
    return np.asarray(array.to_numpy(zero_copy_only=False)).astype(np.int64)
