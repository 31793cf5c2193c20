"""Rows of multiple choice: the forms of published data sets, how labels are told, and rows that cannot be used."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.labelled.tasks import choices, prepared_data
from tiryns.runner.data.demo.stdlib_choices import StdlibChoices


def prepared(rows: Any, **fields: Any) -> Any:
    return prepared_data("multiple_choice", train=rows, **fields)


def test_each_choice_is_read_behind_its_text() -> None:
    rows = choices(20)
    data = prepared(rows)
    tokenizer, sequences = data.tokenizer, data.train
    for i, row in enumerate(rows):
        ids, _ = sequences.gather(np.array([i]))
        expected = [tokenizer(row["text"], choice)["input_ids"] for choice in row["choices"]]
        assert ids.tolist() == [token for one in expected for token in one]
        assert sequences.extras(np.array([i]))["choice_lengths"].tolist() == [len(one) for one in expected]
    order = np.array([7, 0, 7])
    extras = sequences.extras(order)
    assert extras["num_choices"].tolist() == [len(rows[i]["choices"]) for i in order]
    assert extras["choice_lengths"].sum() == sequences.lengths(order).sum()
    assert extras["example_labels"].tolist() == [rows[i]["label"] for i in order]


SWAG = {
    "sent1": "a heron", "sent2": "It", "ending0": "flies", "ending1": "reads", "ending2": "sings",
    "ending3": "votes",
}  # fmt: skip
RACE = {"article": "The river froze.", "question": "Why is it cold?", "options": ["winter", "summer", "noon"]}
COPA = {
    "premise": "The ice broke.", "question": "cause", "choice1": "It was warm.", "choice2": "It was night.",
}  # fmt: skip
MANY = {"question": "Which flies?", "options": [f"heron {number}" for number in range(28)]}
ARC = {"question": "Which flies?", "choices": {"text": ["stone", "heron"], "label": ["1", "2"]}}


@pytest.mark.parametrize(
    ("row", "labels", "fields"),
    [
        (SWAG | {"id": "a"}, {"label": [0, 3]}, {
            "text_column": "sent2", "context_column": "sent1", "choice_columns": [f"ending{i}" for i in range(4)],
        }),
        (RACE, {"answer": ["A", "C"]}, {
            "text_column": "question", "context_column": "article", "choices_column": "options", "label_column": "answer",
        }),
        (COPA, {"label": [0, 1]}, {
            "text_column": "question", "context_column": "premise", "choice_columns": ["choice1", "choice2"],
        }),
        (ARC, {"answerKey": ["1", "2"]}, {"text_column": "question", "label_column": "answerKey"}),
        (MANY, {"answer": ["A", "AB"]}, {
            "text_column": "question", "choices_column": "options", "label_column": "answer",
        }),
        (RACE, {"answer": ["winter", "noon"]}, {
            "text_column": "question", "choices_column": "options", "label_column": "answer",
        }),
        (RACE, {"answer": [1, 3]}, {"text_column": "question", "choices_column": "options", "label_column": "answer"}),
    ],
)  # fmt: skip
def test_published_forms(row: dict[str, Any], labels: dict[str, Any], fields: dict[str, Any]) -> None:
    ((name, told),) = labels.items()
    data = prepared([{**row, name: label} for label in told], **fields)
    count = int(data.train.counts[0])
    assert data.train.labels.tolist() == [0, count - 1]
    context = fields.get("context_column")
    first = row[context] if context else row["question"]
    chosen = data.train.examples[0].candidates[0]
    second = f"{row[fields['text_column']]} {chosen}" if context else chosen
    ids, _ = data.train.gather(np.array([0]))
    assert ids[: int(data.train.choice_lengths[0])].tolist() == data.tokenizer(first, second)["input_ids"]


def test_choices_in_a_table_are_json_or_cut_at_the_separator(tmp_path: Path) -> None:
    for name, cell, fields in (
        ("json.jsonl", json.dumps(["a b", "c"]), {}),
        ("cut.jsonl", "a b|c", {"label_separator": "|"}),
    ):
        path = tmp_path / name
        path.write_text(json.dumps({"text": "which", "choices": cell, "label": "c"}) + "\n")
        data = prepared(path, **fields)
        assert (data.train.examples[0].candidates, data.train.labels.tolist()) == (["a b", "c"], [1])


def test_columns_at_the_end_may_be_empty() -> None:
    columns = {"choice_columns": [1, 2, 3]}  # as pandas names them
    rows = [
        {"text": "t", "1": "x", "2": "y", "3": "z", "label": 2, "choices": "see 1 to 3"},
        {"text": "u", "1": "x", "2": "y", "3": "", "label": 0, "choices": "see 1 and 2"},
    ]
    assert prepared(rows, **columns).train.counts.tolist() == [3, 2]
    with pytest.raises(ValueError, match="row 1: choice 2 of 3 is empty"):
        prepared([rows[0], {**rows[1], "2": None, "3": "z"}], **columns)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"label": 9}, "no number of a choice is 9"),
        ({"label": "heron"}, "the labels do not tell the right choice in one way"),
        ({"label": None}, "there is no label in column 'label'"),
        ({"choices": ["one"]}, "expected a list of two or more"),
        ({"choices": "one|two"}, r"text with data\.label_separator"),
        ({"choices": ["one", " "]}, "choice 2 of 2 is empty"),
        ({"text": ""}, "the text in column 'text' is empty"),
    ],
)
def test_rows_that_cannot_be_used(change: dict[str, Any], problem: str) -> None:
    rows = choices(12)
    with pytest.raises(ValueError, match=problem):
        prepared([*rows, {**rows[0], **change}])
    if "label" not in change or change["label"] is None:
        data = prepared([*rows, {**rows[0], **change}], on_bad_row="skip")
        assert len(data.train) == 12


def test_label_of_another_set_that_is_no_choice_is_a_bad_row() -> None:
    rows = choices(12)
    wrong = [rows[3], {**rows[0], "label": 7}]
    with pytest.raises(ValueError, match=r"row 1: the label 7 is the number of none of the \d choices"):
        prepared(rows, validation=wrong)
    assert len(prepared(rows, validation=wrong, on_bad_row="skip").validation["validation"]) == 1


def test_baselines_are_those_of_guessing_and_of_the_most_frequent_place() -> None:
    rows = choices(40)
    places = [row["label"] for row in rows]
    found = prepared(rows, validation=rows).baselines()
    chance = sum(1 / len(row["choices"]) for row in rows) / 40
    assert found["val/validation/chance_accuracy"] == pytest.approx(chance)
    assert found["val/validation/majority_accuracy"] == max(places.count(p) for p in places) / 40


@pytest.mark.slow
def test_demo_has_no_place_or_package_that_is_right_more_often() -> None:
    rows, trained = StdlibChoices("validation").rows(), StdlibChoices("train").rows()
    assert {len(row["choices"]) for row in rows} == {3, 4, 5}
    chance = sum(1 / len(row["choices"]) for row in rows) / len(rows)
    frequent = Counter(row["choices"][row["label"]] for row in trained)
    right = sum(max(row["choices"], key=frequent.__getitem__) == row["choices"][row["label"]] for row in rows)
    assert right / len(rows) < chance + 0.08
    assert not {row["text"] for row in rows} & {row["text"] for row in trained}
