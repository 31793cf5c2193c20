"""Sources read in pieces, side by side: the same documents in the same order, and stores of the same bytes."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.data.text.conftest import Own, paragraphs, prepared_in
from tiryns.runner.data.read import file_documents
from tiryns.runner.data.read.documents import CombinedSource, Source, open_source
from tiryns.runner.data.read.file_documents import FileSource, Piece
from tiryns.runner.data.store.reader import TokenStore
from tiryns.runner.data.text import pool, tokenise
from tiryns.runner.data.text.prepare import PreparedText

TEXTS = [f"{text}\nGrüße, 川 {n} \u2028\x0b\x85 end" for n, text in enumerate(paragraphs(60))]
SMALL = 256
"""Bytes of a piece: less than a few documents."""


def lines(path: Path, texts: list[str]) -> None:
    path.write_text("\ufeff" + "\n \u3000\n\n".join(texts) + "\n", encoding="utf-8")


def records(path: Path, texts: list[str]) -> None:
    rows = [json.dumps({"text": text}, ensure_ascii=number % 2 == 0) for number, text in enumerate(texts)]
    path.write_text("\n\n".join(rows), encoding="utf-8")


def array(path: Path, texts: list[str]) -> None:
    path.write_text(json.dumps([{"text": text} for text in texts]))


def table(path: Path, texts: list[str]) -> None:
    path.write_text("text,n\n" + "".join(f'"{text}",{n}\n' for n, text in enumerate(texts)))


def packed(path: Path, texts: list[str]) -> None:
    path.write_bytes(gzip.compress("\n\n".join(texts).encode()))


def parquet(path: Path, texts: list[str]) -> None:
    pq.write_table(pa.table({"text": texts}), path, row_group_size=7)


def arrow_file(path: Path, texts: list[str]) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, pa.schema([("text", pa.string())])) as out:
        out.write_table(pa.table({"text": texts}), max_chunksize=7)


def arrow_stream(path: Path, texts: list[str]) -> None:
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_stream(sink, pa.schema([("text", pa.string())])) as out,
    ):
        out.write_table(pa.table({"text": texts}), max_chunksize=7)


FORMATS: list[tuple[str, str, Callable[[Path, list[str]], None]]] = [
    ("a.txt", "paragraph", lines), ("a.txt", "line", lines), ("a.md", "paragraph", lines), ("a.txt", "file", lines),
    ("a.jsonl", "paragraph", records), ("a.json", "paragraph", array), ("a.csv", "paragraph", table),
    ("a.txt.gz", "paragraph", packed), ("a.parquet", "paragraph", parquet), ("a.arrow", "paragraph", arrow_file),
    ("b.arrow", "paragraph", arrow_stream),
]  # fmt: skip

CUT = {"a.txt paragraph", "a.txt line", "a.md paragraph", "a.jsonl paragraph", "a.parquet paragraph",
       "a.arrow paragraph", "b.arrow paragraph"}  # fmt: skip
"""Formats of which parts of a file are read side by side; of the others whole files are."""


def source_of(folder: Path, name: str, unit: str, write: Callable[[Path, list[str]], None]) -> Source:
    """Two files of a format."""
    ending = name.partition(".")[2]
    for number, texts in enumerate((TEXTS[:40], TEXTS[40:])):
        write(folder / f"{name[0]}{number}.{ending}", texts)
    return open_source(str(folder / f"*.{ending}"), "text", "train", unit)


@pytest.mark.parametrize(("name", "unit", "write"), FORMATS)
def test_pieces_join_to_the_documents(
    tmp_path: Path, name: str, unit: str, write: Callable[[Path, list[str]], None]
) -> None:
    source = source_of(tmp_path, name, unit, write)
    whole = list(source.documents())
    for num_bytes in (1, 100, SMALL, 10**6):
        pieces = Piece.all_of(source, num_bytes)
        assert [text for piece in pieces for text in piece.documents(source)] == whole
        if num_bytes == SMALL:
            assert (len(pieces) > 10) == (f"{name} {unit}" in CUT)
            assert len(pieces) >= 2
    assert len(whole) >= 2


def content(folder: Path, found: PreparedText) -> dict[str, bytes]:
    """Every file of the stores, by its name in the cache."""
    stores = [found.train, *found.validation.values()]
    return {str(f.relative_to(folder)): f.read_bytes() for store in stores for f in sorted(store.iterdir())}


@pytest.fixture(name="in_pieces")
def in_pieces_fixture(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes two processes share small pieces."""

    def switch() -> None:
        monkeypatch.setattr(pool, "num_workers", lambda size: 2)
        for module in ("holdout", "tokenise"):
            monkeypatch.setattr(f"tiryns.runner.data.text.{module}.num_workers", lambda size: 2)
        monkeypatch.setattr("tiryns.runner.data.text.holdout.PIECE", SMALL)

    return switch


@pytest.mark.rows(1)
@pytest.mark.parametrize(("name", "unit", "write"), FORMATS)
def test_stores_of_pieces_are_those_of_one_worker(
    tmp_path: Path,
    in_pieces: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    unit: str,
    write: Callable[[Path, list[str]], None],
) -> None:
    source = source_of(tmp_path, name, unit, write)
    held_out: Any = {"validation_documents": 1 if unit == "file" else 5}
    one = prepared_in(tmp_path / "one", source, **held_out)
    in_pieces()
    monkeypatch.setattr(FileSource, "documents", None)  # nobody reads all of them
    two = prepared_in(tmp_path / "two", source, **held_out)
    assert content(tmp_path / "two", two) == content(tmp_path / "one", one)
    assert two.documents == one.documents
    assert two.tokens_per_byte == one.tokens_per_byte


@pytest.mark.slow
def test_a_source_of_several_is_cut_where_it_can_be(tmp_path: Path, in_pieces: Callable[[], None]) -> None:
    lines(tmp_path / "a.txt", TEXTS)
    source = CombinedSource(
        [open_source(tmp_path / "a.txt", "text", "train", "line"), Own(paragraphs(30, seed=1))]
    )
    sizes = [piece.num_bytes for piece in Piece.all_of(source, SMALL)]
    assert len(sizes) > 5
    assert sizes[-1] is None
    one = prepared_in(tmp_path / "one", source)
    in_pieces()
    assert content(tmp_path / "two", prepared_in(tmp_path / "two", source)) == content(tmp_path / "one", one)


@pytest.mark.slow
def test_token_ids_are_cut_too(tmp_path: Path, source: Source, in_pieces: Callable[[], None]) -> None:
    tokenizer = str(prepared_in(tmp_path / "text", source).tokenizer)
    rows = [np.arange(5, 10 + number % 30).tolist() for number in range(200)]
    pq.write_table(pa.table({"input_ids": rows}), tmp_path / "ids.parquet", row_group_size=20)
    ids = open_source(tmp_path / "ids.parquet", "text", "train", "paragraph")
    one = prepared_in(tmp_path / "one", ids, tokenizer=tokenizer)
    in_pieces()
    assert content(tmp_path / "two", prepared_in(tmp_path / "two", ids, tokenizer=tokenizer)) == content(
        tmp_path / "one", one
    )
    assert TokenStore(one.train).num_bytes is None


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("a.jsonl", b'{"text": "one" oh}', "line 121: no valid JSON"),
        ("a.jsonl", b'{"text": 7}', "row 60 of .*a.jsonl: column 'text' holds int"),
        ("a.txt", b"\xff\xfe", "is not UTF-8: byte 0xff at offset"),
    ],
)
def test_an_error_in_a_piece_names_the_place_in_the_file(
    tmp_path: Path, in_pieces: Callable[[], None], name: str, wrong: bytes, message: str
) -> None:
    path = tmp_path / name
    (records if name == "a.jsonl" else lines)(path, TEXTS)
    path.write_bytes(path.read_bytes() + b"\n\n" + wrong)
    in_pieces()
    with pytest.raises(ValueError, match=message):
        prepared_in(tmp_path / "cache", open_source(path, "text", "train", "paragraph"))


@pytest.mark.slow
def test_a_file_too_large_for_one_process_is_read_by_the_first(
    tmp_path: Path, in_pieces: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = source_of(tmp_path, "a.csv", "paragraph", table)
    one = prepared_in(tmp_path / "one", source)
    in_pieces()
    monkeypatch.setattr(file_documents, "_LARGE", 10)
    monkeypatch.setattr(tokenise, "_tokenise_piece", None)
    assert content(tmp_path / "two", prepared_in(tmp_path / "two", source)) == content(tmp_path / "one", one)
