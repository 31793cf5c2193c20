"""How tables are found to be written, what is left open, and rows that cannot be used, in every format of rows."""

import json
from pathlib import Path
from typing import Any

import pytest

from tiryns.runner.data.read.bad_rows import BadRow, BadRows
from tiryns.runner.data.read.delimited import dialect_of
from tiryns.runner.data.read.opened import AS_FOUND, Dialect, File, Reading
from tiryns.runner.data.read.rows import HowRead, Rows, read_rows

BOTH = ("text", "label")


def found(path: Path, content: str | bytes, reading: Reading = AS_FOUND, wanted: Any = BOTH) -> Dialect:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return dialect_of(File(path, path.suffix[1:], reading), wanted)


def skipped(path: Path, content: str | bytes) -> Rows:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_rows(str(path), how=HowRead(BadRows(skip=True), BOTH))


def table(delimiter: str, rows: int = 20, header: bool = True) -> str:
    lines = [f"where is order, please {i}{delimiter}{'order' if i % 2 else 'refund'}" for i in range(rows)]
    return "\n".join([f"text{delimiter}label"] * header + lines) + "\n"


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_delimiter_that_cuts_rows_alike_is_found(tmp_path: Path, delimiter: str) -> None:
    assert found(tmp_path / "a.csv", table(delimiter)).delimiter == delimiter
    odd = table(delimiter).replace(
        f"text{delimiter}label", f"text, as asked{delimiter}label"
    )  # as many commas
    assert found(tmp_path / "a.csv", odd).delimiter == delimiter


def test_delimiters_that_are_alike_are_an_error_with_the_choices(tmp_path: Path) -> None:
    content = "a;b,c\n" + "1;2,3\n" * 5
    assert found(tmp_path / "a.csv", content, wanted=("b,c",)).delimiter == ";"
    message = r"a\.csv may be cut .* set data.delimiter=',' or data.delimiter=';'"
    with pytest.raises(ValueError, match=message):
        found(tmp_path / "a.csv", content)


def test_a_wrong_byte_among_utf8_is_a_bad_row_and_no_other_encoding(tmp_path: Path) -> None:
    content = "text,label\ncaf\xe9,order\n".encode() + b"bad \xff,order\nherons,refund\n"
    rows = skipped(tmp_path / "a.csv", content)
    assert [row.values["text"] for row in rows.rows] == ["caf\xe9", "herons"]
    assert rows.bad.reasons() == {"undecodable": {"rows": 1, "first": [f"{tmp_path / 'a.csv'}, line 3"]}}
    with pytest.raises(ValueError, match=r"not UTF-8: byte 0xff at offset 27, line 3\. .*; SKIP leaves out"):
        read_rows(str(tmp_path / "a.csv"), how=HowRead(BadRows(setting="SKIP")))


def test_a_first_line_that_is_a_row_is_asked_about(tmp_path: Path) -> None:
    said = r"line 1 should name the columns, and 'refund' .* all 2 in their order, such as data\.header=\[text,label\]"
    with pytest.raises(ValueError, match=said):
        found(tmp_path / "a.csv", table(";", header=False))
    given = Reading(header=["text", "label"])
    assert found(tmp_path / "a.csv", table(";", header=False), given).names == ["text", "label"]
    assert len(read_rows(str(tmp_path / "a.csv"), given, how=HowRead(columns=BOTH)).rows) == 20
    assert found(tmp_path / "c.csv", table(";") + "text;label\n").names is None  # a header among the rows
    assert found(tmp_path / "d.csv", table(";").replace("text;label", "Question;Intent")).names is None
    three = "".join(f"where is order {i};{'order' if i % 2 else 'refund'};eve\n" for i in range(20))
    with pytest.raises(ValueError, match=r"Name all 3 .* data\.header=\[text,label,column_3\]"):
        found(tmp_path / "e.csv", three)


def test_what_was_decided_before_counts_unless_a_setting_says_otherwise(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("text;a,label\nherons;1,order\n")
    decided = {str(file): Dialect(";", "utf-8", True, None)}
    how = HowRead(dialects=decided)
    assert read_rows(str(file), how=how).rows[0].values == {"text": "herons", "a,label": "1,order"}
    given = read_rows(str(file), Reading(delimiter=","), how=how)
    assert given.rows[0].values == {"text;a": "herons;1", "label": "order"}
    assert given.tables[str(file)].delimiter == ","


BAD = {
    "a.csv": ("text,label\na,b\nonly\nc,d\nx,y,z\n", "wrong number of fields", ["line 3", "line 5"]),
    "b.csv": ('text,label\na,b\n"x" y,z\nc,d\n', "wrong quotes", ["line 3"]),
    "a.jsonl": ('{"text": "a"}\n{"text": \n{"text": "c"}\n', "no valid JSON", ["line 2"]),
    "b.jsonl": ('{"text": "a"}\n[1, 2]\n{"text": "c"}\n', "no json object", ["line 2"]),
    "a.conll": ("a B\nb B\n\nc\nd B\n\ne B\n", "wrong number of fields", ["line 4"]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_rows_are_left_out_and_counted_or_an_error(tmp_path: Path, name: str) -> None:
    content, reason, places = BAD[name]
    rows = skipped(tmp_path / name, content)
    assert len(rows.rows) == 2
    first = [f"{tmp_path / name}, {place}" for place in places]
    assert rows.bad.reasons() == {reason: {"rows": len(places), "first": first}}
    with pytest.raises(BadRow, match=rf"{places[0]}: .*; data\.on_bad_row=skip leaves such rows out"):
        read_rows(str(tmp_path / name), how=HowRead(BadRows(setting="data.on_bad_row=skip")))


def test_a_quote_that_is_not_closed_is_an_error_all_the_same(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unexpected end of data"):
        skipped(tmp_path / "a.csv", 'text,label\na,b\n"open,c\n' + "x,y\n" * 9)


def test_the_first_three_are_named_and_all_are_counted(tmp_path: Path) -> None:
    rows = skipped(tmp_path / "a.csv", "text,label\n" + "a,b\nonly\n" * 5)
    assert rows.bad.describe().startswith("5 rows left out: 5 wrong number of fields (")
    assert rows.bad.describe().count("line ") == 3
    with pytest.raises(ValueError, match=r"holds no examples that can be used: .*line 2: 1 fields"):
        skipped(tmp_path / "a.csv", "text,label\nonly\n")


def test_pairs_of_spacy_are_rows(tmp_path: Path) -> None:
    pairs = [["Ada", {"entities": [[0, 3, "PER"]]}], ["Bo", {"entities": []}]]
    for content in (pairs, {"classes": ["PER"], "annotations": pairs}):
        (tmp_path / "a.json").write_text(json.dumps(content))
        rows = read_rows(str(tmp_path / "a.json")).rows
        assert [dict(row.values) for row in rows] == [
            {"text": "Ada", "entities": [[0, 3, "PER"]]}, {"text": "Bo", "entities": []}
        ]  # fmt: skip
