"""Files that stand for more than they hold: refused before they are unpacked, or streamed where they are honest."""

import gzip
import io
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support import needs
from tiryns.runner.data.read import arrow_files, content
from tiryns.runner.data.read.documents import open_source
from tiryns.runner.data.read.rows import read_rows

FREE = 1 << 20
"""Bytes that any file may unpack to, in these tests: bombs are made as quickly as they burst."""


def parquet(values: Any, **how: Any) -> bytes:
    """A parquet file with a column."""
    made = io.BytesIO()
    pq.write_table(pa.table({"text": values}), made, **{"compression": "zstd", **how})
    return made.getvalue()


def ipc(values: Any, new: Any = pa.ipc.new_file, compression: str | None = None) -> bytes:
    """An arrow file with a column in one batch."""
    made, batch = io.BytesIO(), pa.record_batch({"text": values})
    with new(made, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(batch)
    return made.getvalue()


def repeated(value: Any, count: int) -> pa.DictionaryArray:
    """One value many times, as a dictionary."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([value]))


def lists(of: Any, count: int) -> pa.ListArray:
    """Lists of equal length."""
    return pa.ListArray.from_arrays(pa.array(range(0, len(of) + 1, len(of) // count), pa.int32()), of)


def lines() -> bytes:
    """A file of equal lines."""
    return gzip.compress((LINE + b"\n") * 20_000)


STREAM = pa.ipc.new_stream
PAGE, LONG = "a" * 10_000, "a" * 1_000_000
RUN = pa.RunEndEncodedArray.from_arrays(pa.array([1 << 30], pa.int32()), pa.array([PAGE]))
VIEWS = pa.ListViewArray.from_arrays(
    pa.array([0] * 1_000, pa.int32()), pa.array([99] * 1_000, pa.int32()), pa.array([PAGE] * 99)
)
FIXED = pa.DictionaryArray.from_arrays(
    repeated(b"", 999).indices, pa.array([PAGE.encode()], pa.binary(10_000))
)
LINE = b'{"text": "%b"}' % (b"a river " * 99)

BOMBS: dict[str, Callable[[], bytes]] = {
    "dictionary.parquet": lambda: parquet(repeated(PAGE, 1 << 14)),
    "dictionary_of_bytes.parquet": lambda: parquet(repeated(PAGE.encode(), 1 << 14)),
    "long_value.parquet": lambda: parquet(repeated(LONG, 1_999)),
    "list_of_a_dictionary.parquet": lambda: parquet(lists(repeated(PAGE, 1 << 14), 1)),
    "lists_of_a_dictionary.parquet": lambda: parquet(lists(repeated(PAGE, 1 << 14), 1 << 7)),
    "list_of_lists.parquet": lambda: parquet(lists(lists(repeated(PAGE, 1 << 14), 1 << 7), 1)),
    "struct.parquet": lambda: parquet(pa.StructArray.from_arrays([repeated(PAGE, 1 << 14)], ["a"])),
    "fixed_width.parquet": lambda: parquet(FIXED.dictionary_decode()),
    "numbers.parquet": lambda: parquet(lists(pa.array(np.zeros(1 << 21, np.int8)), 1)),
    "nulls.parquet": lambda: parquet(pa.nulls(1 << 21)),
    "constant_page_of_zstd.parquet": lambda: parquet([LONG] * 20, use_dictionary=False),
    "constant_page_of_gzip.parquet": lambda: parquet([LONG * 20], use_dictionary=False, compression="gzip"),
    "constant_page_of_brotli.parquet": lambda: parquet(
        [LONG * 20], use_dictionary=False, compression="brotli"
    ),
    "shared_beginning.parquet": lambda: parquet(
        [LONG + str(number) for number in range(20)], use_dictionary=False, column_encoding="DELTA_BYTE_ARRAY"
    ),
    "dictionary.arrow": lambda: ipc(repeated(PAGE, 1 << 14), compression="zstd"),
    "dictionary_in_a_stream.arrow": lambda: ipc(repeated(PAGE, 1 << 14), STREAM),
    "list_of_a_dictionary.arrow": lambda: ipc(lists(repeated(PAGE, 1 << 14), 1)),
    "compressed_dictionary.arrow": lambda: ipc(
        pa.DictionaryArray.from_arrays([0], [LONG * 20]), compression="zstd"
    ),
    "constant_buffer_of_zstd.arrow": lambda: ipc([LONG * 20], compression="zstd"),
    "constant_buffer_of_lz4.arrow": lambda: ipc([LONG] * 60, STREAM, "lz4"),
    "runs.arrow": lambda: ipc(RUN, STREAM),
    "views.arrow": lambda: ipc(VIEWS, STREAM),
    "nulls.arrow": lambda: ipc(pa.nulls(1 << 21), STREAM),
    "lines.jsonl.gz": lines,
    "lines.txt.gz": lines,
    "lines.csv.gz": lines,
    "list.json.gz": lambda: gzip.compress(b"[" + (LINE + b",\n") * 20_000 + LINE + b"]"),
}
"""Makers of files of kilobytes that unpack to at least ten times `FREE`."""


BEFORE = pa.default_memory_pool()
POOLS: list[Any] = []
"""Pools that count, which what was read may outlive."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "_FREE", FREE)
    monkeypatch.setattr(content, "_TIMES", 16)
    monkeypatch.setattr(arrow_files, "_BATCH", FREE // 4)


@contextmanager
def in_bounded_memory(most: int) -> Iterator[None]:
    """Asserts what pyarrow and Python hold at most in a block."""
    POOLS.append(pa.proxy_memory_pool(BEFORE))
    pa.set_memory_pool(POOLS[-1])
    tracemalloc.start()
    try:
        yield
        assert POOLS[-1].max_memory() + tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(BEFORE)


def streamed(path: Path) -> Any:
    """The documents of a file."""
    return open_source(str(path), "text", "train", "line").documents()


@pytest.mark.rows(7)
@pytest.mark.parametrize("name", BOMBS)
def test_file_that_unpacks_out_of_proportion_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(BOMBS[name]())
    with in_bounded_memory(32 * FREE), pytest.raises(ValueError, match=name) as caught:
        for _ in streamed(path):
            pass
    assert "unpacks to more than" in str(caught.value)
    assert "\n" not in str(caught.value)
    if ".txt" not in name:
        with pytest.raises(ValueError, match="unpacks to more than"):
            read_rows(path)


@pytest.mark.parametrize("dictionary", [True, False])
def test_large_file_of_real_texts_is_streamed(
    dictionary: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "_TIMES", 256)
    texts = [np.random.default_rng(number).bytes(50_000).hex() for number in range(300)]
    path = tmp_path / "texts.parquet"
    path.write_bytes(parquet(texts, use_dictionary=dictionary, data_page_size=FREE, row_group_size=50))
    assert sum(map(len, texts)) > 24 * FREE
    with in_bounded_memory(16 * FREE):
        assert all(text == expected for text, expected in zip(streamed(path), texts, strict=True))


VALUES: dict[str, Any] = {
    "texts": pa.array(["a", None, "river", "a"]),
    "large texts": pa.array(["a", None, "river", "a"], pa.large_string()),
    "views of texts": pa.array(["a", None, "a river under the bridge", "a"], pa.string_view()),
    "categories": pa.array(["a", None, "river", "a"]).dictionary_encode(),
    "nothing but gaps": pa.DictionaryArray.from_arrays(
        pa.array([None] * 4, pa.int8()), pa.array([], pa.string())
    ),
    "bytes": pa.array([b"a", None, b"\xff", b""]),
    "numbers": pa.array([1, None, 3, 4], pa.int16()),
    "lists": pa.array([[1, 2], None, [], [3]]),
    "lists of texts": pa.array([["a", "b"], None, [], ["a", None]]),
    "lists of one length": pa.array([["a", "b"], None, ["c", "d"], ["a", None]], pa.list_(pa.string(), 2)),
    "maps": pa.array([[("a", "b")], None, [], [("a", "c")]], pa.map_(pa.string(), pa.string())),
    "structs": pa.array([{"a": ["x"]}, None, {"a": None}, {"a": ["x", "y"]}]),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([1, 4], pa.int32()), pa.array(["a", "b"])),
    "truths": pa.array([True, None, False, True]),
    "nulls": pa.nulls(4),
}


@pytest.mark.parametrize("batch", [1, 1 << 25])
@pytest.mark.parametrize("name", VALUES)
def test_values_of_every_type_are_read_as_they_are(
    name: str, batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_files, "_BATCH", batch)
    values = pa.concat_arrays([VALUES[name], VALUES[name].slice(1)]).slice(1)
    files = {"x.arrow": ipc(values), "y.arrow": ipc(values, STREAM, "lz4")}
    if name == "lists of one length":
        needs.version("pyarrow", "25", "writes no list of one length to parquet where one of them is null")
    if name != "runs":  # parquet has them, but no type for them
        files["x.parquet"] = parquet(values)
    for file, written in files.items():
        (tmp_path / file).write_bytes(written)
        assert [row.values["text"] for row in read_rows(tmp_path / file).rows] == values.to_pylist()
