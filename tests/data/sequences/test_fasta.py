"""FASTA files: each record is a document, and a damaged file is one message with its line."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from tiryns.runner.data.read.documents import open_source
from tiryns.runner.data.read.rows import read_rows

FILE = "\n; a comment\n>sp|P1|A Heron protein\r\nMKV LA\nGG*\n\n;another\n>two\nmkv-.\n>\nAC"
SEQUENCES = ["MKVLAGG*", "mkv-.", "AC"]


def read(path: Path) -> list[Any]:
    return list(open_source(path, "text", "train", "paragraph").documents())


@pytest.mark.parametrize("name", ["a.fasta", "a.fa", "a.FAA", "a.fna.gz", "a.fasta.gz"])
def test_a_record_is_a_document(tmp_path: Path, name: str) -> None:
    content = FILE.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert read(tmp_path / name) == SEQUENCES
    assert read(tmp_path) == SEQUENCES, "a folder finds it"


def test_rows_have_the_names_of_the_records(tmp_path: Path) -> None:
    (tmp_path / "a.fasta").write_text(FILE)
    rows = [row.values for row in read_rows(str(tmp_path / "a.fasta"), split="train").rows]
    assert [row["id"] for row in rows] == ["sp|P1|A", "two", ""]
    assert [row["text"] for row in rows] == SEQUENCES


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("MKV\n>a\nMKV\n", 1, "expected a header such as '>name', found 'MKV'"),
        (">a\nMKV\n>b\n>c\nMKV\n", 3, "the record 'b' has no sequence"),
        (">a\nMKV\n>b late\n", 3, "the record 'b late' has no sequence"),
        (">a\nMKV\nMK7V\n", 3, "'7' in a sequence; expected letters"),
        ("<html>\n", 1, "expected a header such as '>name', found '<html>'"),
    ],
)
def test_damage_is_one_line_with_its_place(tmp_path: Path, content: str, line: int, message: str) -> None:
    (tmp_path / "a.fasta").write_text(content)
    with pytest.raises(ValueError, match=rf"a\.fasta, line {line}: ") as error:
        read(tmp_path / "a.fasta")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_damaged_compression_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.fasta.gz"
    file.write_bytes(gzip.compress(b">a\n" + bytes(range(65, 90)) * 9000)[:200])
    with pytest.raises(ValueError, match=r"a\.fasta\.gz is no readable gz file"):
        read(file)
