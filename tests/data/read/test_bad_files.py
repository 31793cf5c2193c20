"""Input that cannot be read: one message that names the file and the place in it."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.data.text.test_sources import DOCUMENTS, read, source


def bad(name: str, content: bytes | str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder / name

    return make


def damaged(at: float) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        many = [{"text": f"{number} {text}"} for number in range(500) for text in DOCUMENTS]
        path = folder / "a.parquet"
        pq.write_table(pa.Table.from_pylist(many), path)
        content = bytearray(path.read_bytes())
        start = int(len(content) * at)
        content[start : start + 40] = b"\xff" * 40
        path.write_bytes(content)
        return path

    return make


def damaged_offsets(name: str) -> Callable[[Path], Path]:
    """A file whose offsets of texts ask for far more bytes than there are."""

    def make(folder: Path) -> Path:
        texts = [f"{number} herons wade here" for number in range(500)]
        with pa.OSFile(str(folder / name), "wb") as file:
            table = pa.table({"text": texts})
            with pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
        content = (folder / name).read_bytes()
        offsets = table["text"].chunk(0).buffers()[1].to_pybytes()[:2004]
        assert content.count(offsets) == 1
        wrong = b"".join((2_000_000_000 - i).to_bytes(4, "little") for i in range(501))
        (folder / name).write_bytes(content.replace(offsets, wrong))
        return folder / name

    return make


BAD_FILES = {
    "missing": (lambda f: f / "no.txt", r"no file or folder .*no\.txt"),
    "missing with ~": (lambda f: "~/no-such-folder", "no file or folder ~/no-such-folder"),
    "glob without match": (lambda f: str(f / "*.txt"), r"no file matches .*\*\.txt"),
    "empty": (bad("a.txt", ""), r"a\.txt is empty"),
    "unknown format": (bad("a.docx", "x"), r"a\.docx has an unknown format; known are: \.txt, \.md, \.json"),
    "empty folder": (lambda f: f, "holds no file of a known format: .txt"),
    "not UTF-8": (bad("a.txt", b"One.\n\ntwo caf\xe9."), r"a\.txt is not UTF-8: byte 0xe9 at offset 13"),
    "not UTF-8, csv": (
        bad("a.csv", b"text\n\xef\xf0\xe8\xe2\xe5\xf2\n"),
        r"a\.csv is not UTF-8 \(byte 0xef at offset 5\): set data\.encoding=.* or data\.encoding=cp1251",
    ),
    "UTF-16": (
        bad("a.txt", "One.".encode("utf-16")),
        r"a\.txt is not UTF-8: it begins with the mark of UTF-16: set data\.encoding=utf-16",
    ),
    "UTF-16 without its mark": (
        bad("a.csv", "text\nseven herons\n".encode("utf-16-be")),
        r"a\.csv is no text: 18 of its first 36 bytes are zero, as in UTF-16 .* set data\.encoding=utf-16-be",
    ),
    "a program": (
        bad("a.txt", b"\x7fELF\x01\0\0\0seven\0herons\n"),
        r"a\.txt is no text: 4 of its first 21 bytes are zero$",
    ),
    "broken json": (
        bad("a.json", '[{"text": "x"},\n{"text" "y"}]'),
        r"a\.json is no valid JSON: line 2, column 9",
    ),
    "no records": (bad("a.json", '{"a": 1}'), r"a\.json holds no list of records"),
    "columns of unequal length": (
        bad("a.json", '{"text": ["a", "b", "c"], "label": ["x", "y"]}'),
        r"a\.json has columns of unequal length, {'text': 3, 'label': 2}: fill in null$",
    ),
    "numbers": (
        bad("a.json", "[1, 2]"),
        r"a\.json holds no records: expected objects with named columns, found 1",
    ),
    "half a character": (
        bad("a.jsonl", r'{"text": "whole \ud83e\udda2"}' + "\n" + r'{"text": "half \ud83e"}'),
        r"a\.jsonl, line 2: no valid JSON: '\\ud83e' is half of a character",
    ),
    "half a character in a list": (
        bad("a.json", r'["half \ud83e"]'),
        r"a\.json is no valid JSON: .* half of a",
    ),
    "no ids": (
        bad("a.jsonl", '{"input_ids": [[1], [2]]}'),
        r"row 0 of .*: input_ids is no flat list of integers",
    ),
    "parquet, footer": (damaged(0.999), r"a\.parquet is no readable parquet file"),
    "parquet, pages": (damaged(0.3), r"a\.parquet is no readable parquet file"),
    "parquet, text": (bad("a.parquet", "no parquet"), r"a\.parquet is no readable parquet file"),
    "arrow, text": (bad("a.arrow", "no arrow at all"), r"a\.arrow is no readable arrow file"),
    "arrow, offsets": (damaged_offsets("a.arrow"), r"a\.arrow is no readable arrow file: .*offset"),
    "no source": (lambda f: 5, "data.source=5 is no source: give a path"),
    "no sources": (lambda f: [], "data.source is an empty list"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_input_is_one_message(tmp_path: Path, case: str) -> None:
    make, message = BAD_FILES[case]
    with pytest.raises((ValueError, FileNotFoundError), match=message) as error:
        read(make(tmp_path))
    assert "\n" not in str(error.value)


def test_text_and_token_ids_do_not_mix(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "x"}')
    (tmp_path / "b.jsonl").write_text('{"input_ids": [1, 2]}')
    with pytest.raises(ValueError, match=r"a\.jsonl and .*b\.jsonl differ"):
        read(tmp_path)
    with pytest.raises(ValueError, match=r"is tokenised already, .* is text"):
        _ = source([tmp_path / "a.jsonl", tmp_path / "b.jsonl"]).tokenized
