"""A column that a file does not have is told by its name, and is another thing than an empty cell."""

from pathlib import Path
from typing import Any

import pytest

from tests.data.labelled.test_everyday import read

ONE_HOT_ROWS = "text,refund,order\n" + "".join(f"where is order {i},{i % 2},{1 - i % 2}\n" for i in range(8))
TAGGED = [{"words": ["herons", "wade"], "upos": ["N", "V"]}] * 4
ABSENT: dict[str, tuple[str, Any, dict[str, Any], str]] = {
    "no one-hot column": ("classification", ONE_HOT_ROWS, {"label_columns": ["foo", "bar"]}, r"'foo'.*refund"),
    "a single one": ("classification", ONE_HOT_ROWS, {"label_columns": ["foo"]}, r"'foo'.*refund, order"),
    "one of two": ("classification", ONE_HOT_ROWS, {"label_columns": ["refund", "ordr"]}, r"'ordr'.*refund, order"),
    "before empty cells": (
        "classification",
        "text,refund,label\nwhere,,1\n",
        {"label_columns": ["refund", "bar"]},
        r"'bar'.*text, refund",
    ),
    "beside a column of labels": (
        "classification",
        "text,label\nwhere,refund\n",
        {"label_columns": ["foo"]},
        r"'foo'.*text",
    ),
    "tags": ("joint_tagging", TAGGED, {"tag_columns": ["foo", "bar"]}, r"foo, bar; it has: words, upos"),
    "label": ("classification", ONE_HOT_ROWS, {"label_column": "foo"}, r"'foo'.*refund"),
}  # fmt: skip


@pytest.mark.parametrize("form", ABSENT)
@pytest.mark.parametrize("on_bad_row", ["error", "skip"])
def test_absent_columns_are_named_with_those_of_the_file(tmp_path: Path, form: str, on_bad_row: str) -> None:
    option, content, settings, message = ABSENT[form]
    with pytest.raises(ValueError, match=message) as error:
        read(tmp_path / "a.json" if option != "classification" else tmp_path / "a.csv", option, content, **settings,
             on_bad_row=on_bad_row)  # fmt: skip
    assert "leaves such rows out" not in str(error.value)


def test_empty_one_hot_cells_are_rows_without_a_label(tmp_path: Path) -> None:
    content = ONE_HOT_ROWS + "unknown,,\n"
    message = r"no label in columns 'refund', 'order'; data\.on_bad_row=skip leaves"
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "a.csv", "classification", content, label_columns=["refund", "order"])
    kept = read(
        tmp_path / "a.csv", "classification", content, label_columns=["refund", "order"], on_bad_row="skip"
    )
    assert len(kept.train.examples) == 8
