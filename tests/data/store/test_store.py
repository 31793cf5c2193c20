"""Token stores: what is written is read back, whole or not at all."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.processes.memory import forget_peak, of_proc, peak_kilobytes
from tiryns.runner.data.store.reader import FORMAT_VERSION, TokenStore, entropy, ordinary_counts
from tiryns.runner.data.store.writer import Batch, smallest_dtype, write_store

Sequences = list[list[int]]


def batch(sequences: Sequences, position: int = 0) -> Batch:
    flat = [token for sequence in sequences for token in sequence]
    return Batch(np.array(flat, np.int64), np.array([len(s) for s in sequences], np.int32), position)


def write(folder: Path, sequences: Sequences, vocab_size: int = 300, **attributes: Any) -> TokenStore:
    return write_store(folder, vocab_size, attributes, lambda _: iter([batch(sequences)]))


@pytest.fixture
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., TokenStore]:
    return lambda *arguments, **options: write(tmp_path_factory.mktemp("store") / "s", *arguments, **options)


sequences = st.lists(st.lists(st.integers(0, 70_000), min_size=1, max_size=600), min_size=1, max_size=30)


@settings(max_examples=40)
@given(content=sequences, draw=st.randoms(use_true_random=False))
def test_what_is_gathered_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, content: Sequences, draw: Any
) -> None:
    store = write(tmp_path_factory.mktemp("store") / "s", content, vocab_size=70_001)
    picked = [draw.randrange(len(content)) for _ in range(draw.randrange(60))]
    indices = np.array(picked, np.int64)
    ids, lengths = store.gather(indices)
    assert ids.dtype == np.int64
    assert lengths.dtype == np.int32
    assert ids.tolist() == [token for i in picked for token in content[i]]
    assert lengths.tolist() == store.lengths(indices).tolist() == [len(content[i]) for i in picked]
    assert len(store) == len(content)
    assert store.num_tokens == sum(map(len, content))
    assert store.max_token_id == max(map(max, content))
    assert [store[i].tolist() for i in range(len(store))] == content
    store.verify()


def test_many_short_and_few_long_sequences_gather_alike(make: Callable[..., TokenStore]) -> None:
    rng = np.random.default_rng(0)
    content = [rng.integers(0, 300, n).tolist() for n in [*rng.integers(1, 9, 5000), 3000, 2, 4000]]
    store = make(content)
    for indices in (rng.permutation(5003), np.array([5000, 5001, 5002]), np.array([], np.int64)):
        ids, _ = store.gather(indices)
        assert ids.tolist() == [token for i in indices for token in content[i]]


def test_an_index_that_is_not_there_is_an_error(make: Callable[..., TokenStore]) -> None:
    store = make([[1], [2, 3]])
    for wrong in (-1, 2):
        with pytest.raises(IndexError, match="expected 0 to below 2"):
            store[wrong]
        with pytest.raises(IndexError, match="expected 0 to below 2"):
            store.gather(np.array([0, wrong]))
        with pytest.raises(IndexError, match="expected 0 to below 2"):
            store.lengths(np.array([wrong]))


@pytest.mark.parametrize(
    ("vocab_size", "width"), [(1, 1), (256, 1), (257, 2), (65_536, 2), (65_537, 4), (250_000, 4)]
)
def test_ids_take_the_smallest_integer_that_holds_the_vocabulary(
    tmp_path: Path, vocab_size: int, width: int
) -> None:
    store = write(tmp_path / "s", [[vocab_size - 1, 0]], vocab_size)
    assert store[0].tolist() == [vocab_size - 1, 0]
    assert (tmp_path / "s/tokens.bin").stat().st_size == 2 * width
    assert np.iinfo(smallest_dtype(vocab_size)).max >= vocab_size - 1


def test_the_fingerprint_is_of_content_and_attributes_not_of_batches(tmp_path: Path) -> None:
    content = [[1, 2, 3], [4], [5, 6]]
    whole = write(tmp_path / "a", content, tokenizer="x")
    pieces = write_store(
        tmp_path / "b", 300, {"tokenizer": "x"}, lambda _: iter([batch(content[:1]), batch(content[1:])])
    )
    assert whole.fingerprint == pieces.fingerprint
    others = [
        write(tmp_path / "c", content, tokenizer="y"),
        write(tmp_path / "d", [[1, 2], [3, 4], [5, 6]], tokenizer="x"),
        write(tmp_path / "e", [[1, 2, 3], [4], [5, 7]], tokenizer="x"),
    ]
    assert len({whole.fingerprint, *(other.fingerprint for other in others)}) == 4


@of_proc
def test_a_hundred_million_sequences_open_at_once_in_constant_memory(tmp_path: Path) -> None:
    size, folder = 10**8, tmp_path / "s"
    write(folder, [[1]])
    meta = json.loads((folder / "meta.json").read_text())
    meta |= {"num_sequences": size, "num_tokens": size}
    (folder / "meta.json").write_text(json.dumps(meta))
    os.truncate(folder / "tokens.bin", size * np.dtype(meta["dtype"]).itemsize)
    with open(folder / "offsets.bin", "r+b") as file:
        file.truncate((size + 1) * 8)
        file.seek(size * 8)
        file.write(np.int64(size).tobytes())
    forget_peak()
    before = peak_kilobytes()
    store = TokenStore(folder)
    assert len(store) == size
    assert len(store.gather(np.arange(5) * (size // 7))[1]) == 5
    assert peak_kilobytes() - before < 20_000, "the offsets alone are 800 MB"


def cut(folder: Path, name: str, by: int) -> None:
    os.truncate(folder / name, (folder / name).stat().st_size + by)


def set_meta(folder: Path, **values: Any) -> None:
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps({**meta, **values}))


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda f: cut(f, "tokens.bin", -1), r"damaged \(tokens.bin has 9 bytes where meta.json says 10\)"),
        (lambda f: cut(f, "offsets.bin", 8), "damaged .offsets.bin has 32 bytes where"),
        (lambda f: (f / "offsets.bin").unlink(), "damaged .offsets.bin is missing"),
        (lambda f: (f / "offsets.bin").write_bytes(bytes(24)), "offsets do not span"),
        (lambda f: (f / "meta.json").write_text("{}"), "lacks or garbles 'format_version'"),
        (lambda f: set_meta(f, num_tokens="many"), "meta.json lacks or garbles"),
        (lambda f: set_meta(f, format_version=FORMAT_VERSION + 1), "version 3, this program reads version 2"),
    ],
)
def test_a_damaged_store_is_refused_at_opening(
    tmp_path: Path, harm: Callable[[Path], None], message: str
) -> None:
    folder = tmp_path / "s"
    write(folder, [[1, 2, 3], [4, 5]])
    harm(folder)
    with pytest.raises(ValueError, match=message) as refused:
        TokenStore(folder)
    assert str(folder) in str(refused.value)


def test_changed_content_is_found_by_verify(tmp_path: Path) -> None:
    store = write(tmp_path / "s", [[1, 2, 3], [4, 5]])
    content = bytearray((tmp_path / "s/tokens.bin").read_bytes())
    content[2] ^= 1
    (tmp_path / "s/tokens.bin").write_bytes(content)
    with pytest.raises(ValueError, match="does not match its fingerprint"):
        TokenStore(store.folder).verify()


def test_unigram_entropy_is_that_of_ordinary_tokens(make: Callable[..., TokenStore]) -> None:
    store = make([[2, 10, 11, 10, 10, 3], [2, 12, 3]])
    shares = np.array([3, 1, 1]) / 5
    counts = ordinary_counts(store, [2, 3, 299])
    assert {token: count for token, count in enumerate(counts.tolist()) if count} == {10: 3, 11: 1, 12: 1}
    assert entropy(counts) == pytest.approx(-(shares * np.log(shares)).sum())
    assert np.isnan(entropy(ordinary_counts(store, [2, 3, 10, 11, 12])))


def test_bytes_add_up_and_are_not_known_where_those_of_a_part_are_not(tmp_path: Path) -> None:
    known = [batch([[1, 2]], 1)._replace(num_bytes=7), batch([[3]], 2)._replace(num_bytes=5)]
    store = write_store(tmp_path / "known", 300, {}, lambda _: iter(known))
    assert store.num_bytes == TokenStore(store.folder).num_bytes == 12
    partly = [known[0], batch([[3]], 2)]
    assert write_store(tmp_path / "partly", 300, {}, lambda _: iter(partly)).num_bytes is None
