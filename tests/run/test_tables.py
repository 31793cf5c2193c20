"""Rows as files: each format holds all of them, and refuses what it cannot hold."""

from pathlib import Path
from typing import Any

import pytest

from tiryns.runner.data.read.rows import read_rows
from tiryns.runner.run.command.tables import ENDINGS, write_rows

ROWS: list[dict[str, Any]] = [
    {"text": 'a "b", c\td', "nr": "7", "labels": ["x", "y"]},
    {"text": "two\nlines", "nr": "8\r9", "labels": []},
]


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_reader_of_tables_reads_what_is_written(tmp_path: Path, ending: str) -> None:
    file, kind = tmp_path / f"rows{ending}", ENDINGS[ending]
    write_rows(iter(ROWS), file, kind)
    as_text = {"labels": '["x", "y"]'} if kind in ("csv", "tsv") else {}
    found = [dict(row.values) for row in read_rows(str(file)).rows]
    assert found == [{**ROWS[0], **as_text}, {**ROWS[1], **({"labels": "[]"} if as_text else {})}]


def test_labels_are_joined_as_they_were_read(tmp_path: Path) -> None:
    write_rows(
        [{"text": "a", "predicted": ["x", "y"], "probability": [0.5, 0.5]}], tmp_path / "a.csv", "csv", "|"
    )
    assert (tmp_path / "a.csv").read_text() == 'text,predicted,probability\na,x|y,"[0.5, 0.5]"\n'


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet"])
def test_columns_that_later_rows_add_are_no_loss(tmp_path: Path, kind: str) -> None:
    message = r"a column 'more' that the first row lacks: .*: write jsonl, which keeps"
    with pytest.raises(ValueError, match=message):
        write_rows([{"text": "a"}, {"text": "b", "more": 1}], tmp_path / "a", kind)
    assert not [*tmp_path.iterdir()]


def test_parquet_is_a_file_with_one_type_for_a_column(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^a parquet column needs values of one type: .*: write jsonl$"):
        write_rows([{"nr": 1}, {"nr": "one"}], tmp_path / "a.parquet", "parquet")
    with pytest.raises(ValueError, match=r"^parquet is for a file: name it with --out FILE$"):
        write_rows(ROWS, None, "parquet")
