"""Encodings, delimiters and quotes: found in the file, or as settings say; and what is said where they do not fit."""

import csv
import gzip
from pathlib import Path

import pytest

from tests.data.read.test_one_reader import documents, rows, write_packed
from tiryns.runner.data.read.opened import Reading


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16-le", "cp1252", "utf-8-sig"])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.json", "a.txt", "a.csv.gz"])
def test_encoding_is_that_of_the_setting(tmp_path: Path, name: str, encoding: str) -> None:
    content = {
        "csv": "text\ncafé £5\n", "tsv": "text\ncafé £5\n", "jsonl": '{"text": "café £5"}\n',
        "json": '[{"text": "café £5"}]', "txt": "café £5\n", "csv.gz": "text\ncafé £5\n",
    }[name.partition(".")[2]].encode(encoding)  # fmt: skip
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    reading = Reading(encoding=encoding)
    assert documents(tmp_path / name, reading=reading) == ["café £5"]
    if name != "a.txt":
        assert rows(tmp_path / name, reading=reading) == [{"text": "café £5"}]


def test_an_encoding_that_does_not_fit_or_exist_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"text\ncaf\xe9\n")
    message = r"data\.encoding='latin-0' is none that Python knows; give one such as"
    with pytest.raises(ValueError, match=message):
        rows(tmp_path / "a.csv", reading=Reading(encoding="latin-0"))
    with pytest.raises(ValueError, match=r"a\.csv is not ascii: byte 0xe9 at offset 8, line 2\. Convert it"):
        documents(tmp_path / "a.csv", reading=Reading(encoding="ascii"))


def test_a_wrong_byte_is_counted_from_the_beginning_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "x"}\n' * 9000 + b'{"text": "\xff"}\n')
    for read in (documents, rows):
        with pytest.raises(ValueError, match=f"byte 0xff at offset {14 * 9000 + 10}"):
            read(tmp_path / "a.jsonl")


def test_a_zero_that_slipped_into_a_text_is_a_character_of_it(tmp_path: Path) -> None:
    herons = "seven\0herons " + "herons " * 20 + "fly"
    (tmp_path / "a.txt").write_text(f"{herons}\n")
    assert documents(tmp_path / "a.txt") == [herons]


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    write_packed(tmp_path / "a.csv.gz", lambda content: gzip.compress(content)[:-20])
    for read in (documents, rows):
        with pytest.raises(ValueError, match=r"a\.csv\.gz is no readable gz file"):
            read(tmp_path / "a.csv.gz")


@pytest.mark.parametrize(
    ("header", "delimiter"),
    [("text,label", ","), ("text;label", ";"), ("a;b,c;text", ";"), ('"a;b;c",text', ","), ("text", ",")],
)
def test_delimiter_is_what_the_header_has_most_of(tmp_path: Path, header: str, delimiter: str) -> None:
    names = next(csv.reader([header], delimiter=delimiter))
    (tmp_path / "a.csv").write_text(header + "\n" + delimiter.join("x" * len(names)) + "\n")
    assert rows(tmp_path / "a.csv") == [dict.fromkeys(names, "x")]
    assert documents(tmp_path / "a.csv") == ["x"]


def test_delimiter_may_be_set(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text:label,of\nherons:1,2\n")
    assert rows(tmp_path / "a.csv", reading=Reading(delimiter=":")) == [{"text": "herons", "label,of": "1,2"}]
    assert documents(tmp_path / "a.csv", reading=Reading(delimiter=":")) == ["herons"]
    for read in (documents, rows):
        with pytest.raises(ValueError, match=r"data\.delimiter='::': expected one character"):
            read(tmp_path / "a.csv", reading=Reading(delimiter="::"))


@pytest.mark.parametrize(
    "lines",
    [
        ['"It is fine', 'he said "hi" twice'],  # as in GLUE, whose files quote nothing
        ['"It is fine', 'and so is this"'],
        ['"quoted" and not', 'a "b"'],
    ],
)
def test_quotes_of_a_tsv_without_quoting_are_text(tmp_path: Path, lines: list[str]) -> None:
    (tmp_path / "a.tsv").write_text("text\tlabel\n" + "".join(f"{line}\t1\n" for line in lines))
    assert documents(tmp_path / "a.tsv") == lines
    assert [row["text"] for row in rows(tmp_path / "a.tsv")] == lines


def test_quoting_may_be_set(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('text,label\n"a" b,1\n')
    for read in (documents, rows):
        with pytest.raises(ValueError, match=r"a\.csv, line 2: no valid csv: .*data\.quoting=false"):
            read(tmp_path / "a.csv")
    assert documents(tmp_path / "a.csv", reading=Reading(quoting=False)) == ['"a" b']
    (tmp_path / "b.tsv").write_text('text\tlabel\n"a"\t1\na "b"\t2\n')
    assert documents(tmp_path / "b.tsv") == ['"a"', 'a "b"']
    assert documents(tmp_path / "b.tsv", reading=Reading(quoting=True)) == ["a", 'a "b"']


def test_columns_of_a_file_without_a_line_of_names_are_given(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("gj04\t1\tseven herons\ngj05\t0\tthe old bridge\n")
    named = Reading(header=["source", "label", "text"])
    assert documents(tmp_path / "a.tsv", reading=named) == ["seven herons", "the old bridge"]
    with pytest.raises(ValueError, match=r"line 1: 3 fields where data\.header has 2"):
        documents(tmp_path / "a.tsv", reading=Reading(header=["label", "text"]))
