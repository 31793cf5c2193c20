"""Several problems of a table are told in one error, whose settings are all that it takes."""

import logging
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.data.labelled.tasks import data_module

ROWS = [
    *("Frage;Absicht;Kanal", "", "wie hoch ist die Gebühr;Gebühren;web", "Überweisung kostet;Gebühren;Web"),
    *(f"meine Karte geht nicht {i};Karte;www {i}" for i in range(9)),
    *(f"hohe Gebühr {i};Gebühren;app {i}" for i in range(9)),
    *("ohne Antwort;;web", ";Karte;web", ";;"),
]


def settings_in(message: str) -> dict[str, Any]:
    words = shlex.split(message.partition(". Add: ")[2])
    found: dict[str, Any] = dict(word.removeprefix("data.").split("=", 1) for word in words)
    return {name: v[1:-1].split(",") if v.startswith("[") else v for name, v in found.items()}


def refusal(**fields: Any) -> str:
    with pytest.raises(ValueError, match=r".") as error:
        data_module("classification", **fields).prepare_data()
    return str(error.value)


def test_all_problems_of_a_table_are_told_with_all_settings(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "messy.csv"
    file.write_text("\n".join(ROWS), "cp1252")
    with caplog.at_level(logging.INFO, "tiryns"):
        message = refusal(train=str(file))
    assert not caplog.records
    assert message.startswith("3 problems: (1) ")
    for said in ("is not UTF-8", "no column 'text'", "1 empty text", "1 no label"):
        assert said in message
    settings = settings_in(message)
    assert settings == {
        "encoding": "cp1252", "text_column": "Frage", "label_column": "Absicht", "on_bad_row": "skip",
    }  # fmt: skip
    data = data_module("classification", train=str(file), validation_documents=0, **settings)
    data.prepare_data()
    assert data.reader.state_dict()["labels"] == ["Gebühren", "Karte"]


@pytest.mark.parametrize("rest", ["", "\nohne,"])
def test_encoding_for_several_files_leaves_those_in_utf_8(tmp_path: Path, rest: str) -> None:
    names, labels = {"train": "utf-8", "validation": "cp1252"}, ["außen", "über"]
    for part, encoding in names.items():
        rows = [f"Gebühr {part} {i},{labels[i % 2]}" for i in range(8)]
        (tmp_path / f"{part}.csv").write_text("\n".join(["text,label", *rows]) + rest, encoding)
    files = {part: str(tmp_path / f"{part}.csv") for part in names}
    settings = settings_in(refusal(**files))
    assert settings == {"encoding": ["utf-8", "cp1252"]} | ({"on_bad_row": "skip"} if rest else {})
    data = data_module("classification", **files, **settings)
    data.prepare_data()
    assert data.reader.state_dict()["labels"] == labels


def test_problem_without_a_cure_ends_the_list_and_advises_no_settings(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("text,label\nGebühr,\nanders,\n", "cp1252")
    message = refusal(train=str(file))
    assert "(3) data.train" in message
    assert "holds no row that can be used" in message
    assert "Add:" not in message


def test_a_lone_problem_is_told_as_before_and_rows_in_code_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\nGebühr,a\nanders,b\nwo,a\n", "cp1252")
    message = refusal(train=str(tmp_path / "a.csv"), validation_documents=0)
    assert "(1)" not in message
    assert "set data.encoding=cp1252 or" in message
    data = data_module("classification")
    data.set_datasets(iter([{"text": "herons", "label": "a"}, {"text": "", "label": "b"}]))
    message = r"row 1: the text in column 'text' is empty.* leaves such rows out$"
    with pytest.raises(ValueError, match=message):
        data.prepare_data()


def test_column_of_labels_is_the_users_choice_where_several_may_be_meant(tmp_path: Path) -> None:
    days = [f"2026-01-{1 + i % 12:02}" for i in range(40)]
    rows = [f"{day};wo bleibt Bestellung {i};{'Versand' if i % 2 else 'Kauf'}" for i, day in enumerate(days)]
    file = tmp_path / "requests.csv"
    file.write_text("\n".join(["Datum;Anfrage;Kategorie", *rows, "2026-01-02;;Kauf"]))
    message = refusal(train=str(file))
    _, _, settings = message.partition(". Add: ")
    choice = "data.label_column=COLUMN with one of Kategorie, Datum for COLUMN"
    assert settings == f"data.text_column=Anfrage data.on_bad_row=skip {choice}"
