"""Labels are the ones that occur, as written, and numbers to regress are told apart by one rule."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.labelled.tasks import data_module, prepared_data
from tests.data.labelled.test_labels import learnt, target
from tiryns.runner.data.labelled.columns import meant_columns
from tiryns.runner.data.labelled.labels import MULTI, REGRESSION, SINGLE, by_label
from tiryns.runner.data.labelled.spelling import number_of, whole_number
from tiryns.runner.data.read.bad_rows import BadRow
from tiryns.runner.data.read.rows import read_rows

CODES = [
    (("10115", "20095", "80331", "10115"), ["10115", "20095", "80331"]),
    (("1", "2", "3", "4", "5", "4"), ["1", "2", "3", "4", "5"]),
    (("01", "1", "02", "2"), ["01", "02", "1", "2"]),
    (("0101", "101", "0401", "0405", "0406"), ["0101", "0401", "0405", "0406", "101"]),
    (("3", "7"), ["3", "7"]), (("0", "2"), ["0", "2"]), (("-1", "0", "1"), ["-1", "0", "1"]),
    (("+1", "-1"), ["+1", "-1"]), (("9", "10", "11"), ["9", "10", "11"]), (("00", "0"), ["0", "00"]),
    (("18446744073709551615", "3"), ["3", "18446744073709551615"]),
    (("1e5", "2", "3e4"), ["1e5", "2", "3e4"]), (("01.11", "10.20", "46.90"), ["01.11", "10.20", "46.90"]),
    (("\uff11", "1"), ["1", "\uff11"]), (("nan", "null", "None", "NA"), ["NA", "None", "nan", "null"]),
    (("inf", "1", "2"), ["1", "2", "inf"]), (("0x1F", "31"), ["0x1F", "31"]),
    (("1.", "a", "b"), ["1.", "a", "b"]), (("True", "1"), ["1", "True"]), (("10%", "20%"), ["10%", "20%"]),
    (("2", "6,63", "two"), ["2", "6,63", "two"]),
]  # fmt: skip


@pytest.mark.parametrize(("labels", "names"), CODES)
def test_labels_of_tables_are_those_that_occur_as_written(labels: tuple[str, ...], names: list[str]) -> None:
    made = learnt(*labels, textual=True)
    assert (made.problem_type, made.names) == (SINGLE, names)
    assert [target(made, label) for label in labels] == [names.index(label) for label in labels]


@pytest.mark.parametrize("labels", [[10115, 20095, 80331], [1, 5, 3], [-1, 0, 1], [2**64 - 1, 0], [7, 3]])
def test_integers_of_json_and_parquet_are_those_that_occur(labels: list[int]) -> None:
    made = learnt(*labels)
    assert made.names == [str(label) for label in sorted(labels)]
    assert [made.names[target(made, label)] for label in labels] == list(map(str, labels))
    assert "whole numbers that occur" in made.decision
    several = learnt(labels, labels[:1])
    assert (several.problem_type, several.names) == (MULTI, made.names)


@given(st.lists(st.integers(-(10**9), 10**9), min_size=2, unique=True))
def test_integers_of_any_size_make_as_many_classes(labels: list[int]) -> None:
    text = learnt(*map(str, labels), textual=True)
    assert text.names == learnt(*labels).names == list(map(str, sorted(labels)))
    assert (text.decision == "") == (sorted(labels) == list(range(len(labels))))


REGRESSED = [
    ("0.5", "2"), ("1.0", "3.0", "2.0"), ("-1.25", "4.5"), (".5", "1.5"), ("5.", "2.5"), ("1e-05", "0.3"),
    ("+0.5", "-0.5"), ("1E+20", "3"), ("0.0", "1.0", "2.0"), ("1.25", "980", "3.5"), ("1.125", "1980"),
]  # fmt: skip


@pytest.mark.parametrize("labels", REGRESSED)
def test_numbers_with_a_point_are_regressed_and_it_is_said(labels: tuple[str, ...]) -> None:
    made = learnt(*labels, textual=True)
    assert made.problem_type == REGRESSION
    assert [target(made, label) for label in labels] == list(map(float, labels))
    assert "data.problem_type=single_label makes classes" in made.decision
    assert learnt(*map(float, labels)).problem_type == REGRESSION
    classes = learnt(*labels, textual=True, problem="single_label")
    assert len({target(classes, label) for label in labels}) == len(labels)


PEOPLE = [
    (("1.250,50", "3.000,00", "980,10"), "1.250,50", "Write 1250.50;"),
    (("1,250.50", "980.10"), "1,250.50", "Write 1250.50;"),
    (("1'250.50", "980"), "1'250.50", "Write 1250.50;"),
    (("1 250,50", "980,10"), "1 250,50", "Write 1250.50;"),
    (("1\u202f250", "980"), "1\u202f250", "Write 1250;"), (("1_000", "20"), "1_000", "Write 1000;"),
    (("1,250", "980"), "1,250", "Write 1250 or 1.250;"),
    (("1.250.000", "3.000.000"), "1.250.000", "Write 1250000;"), (("6,63", "2"), "6,63", "Write 6.63;"),
    (("\u20ac 4,50", "3,20 \u20ac"), "\u20ac 4,50", "Write 4.50;"),
    (("3.5 %", "12 %"), "3.5 %", "Write 3.5;"), (("-1.250,5", "3"), "-1.250,5", "Write -1250.5;"),
    (("\u22124,5", "3"), "\u22124,5", "Write -4.5;"),
]  # fmt: skip


@pytest.mark.parametrize(("labels", "first", "advice"), PEOPLE)
def test_numbers_as_people_write_them_are_an_error(labels: tuple[str, ...], first: str, advice: str) -> None:
    with pytest.raises(ValueError, match="row 0: the labels look like numbers as people") as error:
        learnt(*labels, textual=True)
    assert f"{first!r}. {advice} if they are classes, say data.problem_type=single_label" in str(error.value)
    assert len(learnt(*labels, textual=True, problem="single_label").names) == len(labels)
    assert len(learnt(*labels).names) == len(labels)  # text of json is text


def test_a_point_between_thousands_is_asked_about() -> None:
    with pytest.raises(ValueError, match=r"row 1: .*between thousands: '1\.250'\. Write 1250; if the point"):
        learnt("980", "1.250", "3.000", textual=True)
    assert learnt("980", "1.250", textual=True, problem="regression").problem_type == REGRESSION
    assert learnt("0.125", "2", textual=True).problem_type == REGRESSION


@pytest.mark.parametrize("other", ["n/a", "nan", "inf", "high", "0.5 or 0.6", "1.2.3"])
def test_a_label_among_numbers_that_is_none_is_an_error(other: str) -> None:
    with pytest.raises(ValueError, match=r"row 2: the label is '.*', but others are numbers, such as '0\.5'"):
        learnt("0.5", "0.75", other, textual=True)
    assert learnt("0.5", other, "low", textual=True).problem_type == SINGLE


def test_truth_values_keep_their_spelling() -> None:
    made = learnt(True, False, True)
    assert (made.problem_type, made.names) == (SINGLE, ["false", "true"])
    assert [target(made, label) for label in (False, True, np.True_, "true")] == [0, 1, 1, 1]
    several = learnt([True, False], [True])
    assert several.names == ["false", "true"]
    named = learnt(True, False, names=["no", "yes"])
    assert [target(named, label) for label in (False, True)] == [0, 1]
    assert learnt("1.0", "0.0", "1.0", textual=True).names == ["0", "1"]
    with pytest.raises(ValueError, match="mixed types"):
        learnt(True, 1)


@pytest.mark.parametrize("train", [(True, False), ("true", "false"), ("True", "False"), ("TRUE", "FALSE")])
def test_truth_values_are_known_however_they_are_written(train: tuple[Any, Any]) -> None:
    made = learnt(*train)
    for forms in zip((True, "true", "True", "TRUE"), (False, "false", "False", "FALSE"), strict=True):
        assert [made.names[target(made, label)] for label in forms] == [
            made.names[target(made, label)] for label in train
        ]
    assert by_label("class_weights", {True: 3}, made.names, 1.0) == [1.0, 3]
    assert by_label("class_weights", {"false": 2, "True": 4}, made.names, 1.0) == [2, 4]
    with pytest.raises(ValueError, match="names 'tru', which is no label; there are: "):
        by_label("class_weights", {"tru": 2}, made.names, 1.0)
    both = learnt("true", "True", "TRUE")
    assert [both.names[target(both, label)] for label in ("true", "True", "TRUE")] == ["true", "True", "TRUE"]


def test_weights_and_columns_of_truth_values_are_those_of_json(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text("".join(json.dumps({"text": f"herons {i}", "sure": i % 2 == 0}) + "\n" for i in range(8)))
    rows = read_rows(str(file))
    assert meant_columns(rows, "text", "label", ["false", "true"]) == {"label_column": ["sure"]}
    assert meant_columns(rows, "text", "label", ["False", "True"]) == {"label_column": ["sure"]}
    assert meant_columns(rows, "text", "label", ["no", "yes"]) == {}


@pytest.mark.parametrize(
    "label",
    [float("inf"), float("-inf"), float("nan"), 1e400, "1e+400", "9" * 5000, "-" + "9" * 5000, 0.5, "x"],
)
def test_what_is_no_whole_number_is_told_in_a_line(label: Any) -> None:
    with pytest.raises(ValueError, match=r"^.{1,70} is no whole number$"):
        whole_number(label)


def test_long_numbers_are_names_or_an_error_in_a_line(tmp_path: Path) -> None:
    long = "9" * 5000
    assert learnt(long, "1", textual=True).names == ["1", long]
    assert learnt("9" * 400, "1", textual=True).names == ["1", "9" * 400]
    assert whole_number("9" * 400) == int("9" * 400)
    for form, content in {
        "csv": f"text,label\na,{long}\nb,0.5\nc,0.75\n",
        "jsonl": f'{{"text": "a", "label": {long}}}\n',
    }.items():
        with pytest.raises(ValueError, match=r"a\.(csv|jsonl), line \d") as error:
            read(tmp_path / f"a.{form}", content)
        assert str(error.value).startswith(str(tmp_path / f"a.{form}"))
        assert len(str(error.value)) < 400
        assert "\n" not in str(error.value)
    rows = [
        {"text": "x", "choices": ["a", "b"], "label": label} for label in (0, 10**400, float("inf"), long)
    ]
    for row in rows[1:]:
        data = data_module("multiple_choice", train=[rows[0], row], validation_documents=0)
        with pytest.raises(ValueError, match="do not tell the right choice in one way") as error:
            data.prepare_data()
        assert "\n" not in str(error.value)


def test_names_that_are_integers_are_names_of_integers() -> None:
    stars = learnt(5, 1, names=[1, 2, 3, 4, 5])
    assert [target(stars, label) for label in (1, 5)] == [0, 4]
    with pytest.raises(BadRow, match="the label 0 does not occur"):
        target(stars, 0)
    assert target(learnt("5", "1", names=["5", "3", "1"], textual=True), "1") == 2


def read(path: Path, content: str, **fields: Any) -> Any:
    path.write_text(content)
    return prepared_data("classification", **{"train": str(path), **fields})


def test_what_was_decided_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "tiryns"):
        codes = read(tmp_path / "a.csv", "text,label\nberlin,10115\nhamburg,20095\nmunich,80331\n")
        said = "10115, 20095, 80331 (the 3 whole numbers that occur; data.problem_type=regression regresses them)"
        assert f"labels: {said}" in caplog.text
        assert codes.facts()["labels"] == said
        caplog.clear()
        zeros = read(tmp_path / "b.csv", "text,label\nhorses,01\nmules,1\nmilk,02\ncheese,2\n")
        assert zeros.facts()["labels"] == "01, 02, 1, 2 (as they are written, so that 01 and 1 are two)"
        assert "so that 01 and 1 are two" in caplog.text
        caplog.clear()
        rows = "".join(f"rent {i},{700 + 13 * i}\n" for i in range(40))
        assert "most of which occur once" in read(tmp_path / "c.csv", f"text,label\n{rows}").facts()["labels"]
        caplog.clear()
        for plain in ("a,0\nb,1\nc,2\n", "a,x\nb,y\n"):
            assert "(" not in read(tmp_path / "d.csv", f"text,label\n{plain}").facts()["labels"]
        assert "labels:" not in caplog.text


def test_one_rule_for_all_sets_whatever_their_format(tmp_path: Path) -> None:
    other = tmp_path / "valid.jsonl"
    other.write_text('{"text": "one", "label": 10115}\n{"text": "two", "label": "80331"}\n')
    train = "text,label\nberlin,10115\nhamburg,20095\nmunich,80331\n"
    assert read(tmp_path / "a.csv", train, validation=str(other)).validation[
        "validation"
    ].labels.tolist() == [0, 2]
    other.write_text('{"text": "one", "label": 2}\n')
    with pytest.raises(ValueError, match="the label 2 does not occur in the training data, which has 10115"):
        read(tmp_path / "a.csv", train, validation=str(other))


def test_ids_groups_and_choices_keep_their_spelling(tmp_path: Path) -> None:
    rows = "".join(f"{i:02d},text {i},{group},{label}\n{i},text {i} again,{group},{label}\n"
                   for i, (group, label) in enumerate([("01", "a"), ("1", "b"), ("02", "a"), ("2", "b")]))  # fmt: skip
    data = read(tmp_path / "a.csv", f"id,text,group,label\n{rows}", group_column="group", folds=4, fold=1)
    ids = [example.id for one in (data.train, data.test["fold"]) for example in one.examples]
    assert sorted(ids) == sorted([f"{i:02d}" for i in range(4)] + [str(i) for i in range(4)])
    assert [len(one) for one in (data.train, data.test["fold"])] == [6, 2]
    choices = [
        {"text": "which code", "choices": ["01", "1", "10"], "label": "1"},
        {"text": "is it so", "choices": [True, False], "label": "false"},
    ]
    file = tmp_path / "choices.jsonl"
    file.write_text("\n".join(map(json.dumps, choices)))
    chosen = prepared_data("multiple_choice", train=str(file))
    found: Any = chosen.train
    assert [example.candidates for example in found.examples] == [["01", "1", "10"], ["true", "false"]]
    assert found.labels.tolist() == [1, 1]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_number_of_a_program_is_read_back(number: float) -> None:
    assert number_of(repr(number)) == number
