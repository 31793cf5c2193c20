"""Runs and models of earlier versions count integers from 0 and parse all labels of a table alike."""

from typing import Any

import numpy as np
import pytest

from tests.data.labelled.tasks import data_module
from tiryns.runner.data.labelled.classification import ClassificationReader
from tiryns.runner.data.labelled.labels import MULTI, REGRESSION, SINGLE
from tiryns.runner.data.labelled.labels_from_zero import LabelsFromZero
from tiryns.runner.data.labelled.spelling import LocatedLabel

TABLE: list[tuple[str, Any, Any, str, str, list[str], list[Any]]] = [
    ("csv", ("1", "2", "n/a"), None, "auto", SINGLE, ["1", "2", "n/a"], [0, 1, 2]),
    ("csv", ("001", "002", "x"), None, "auto", SINGLE, ["001", "002", "x"], [0, 1, 2]),
    ("json", ("1", "2", "10"), None, "auto", SINGLE, ["1", "10", "2"], [0, 2, 1]),
    ("csv", ("01", "2"), ("01", "2"), "auto", SINGLE, ["01", "2"], [0, 1]),
    ("json", (1, 0), (1, 0), "auto", SINGLE, ["1", "0"], [1, 0]),
    ("csv", ("1", "0"), (1, 0), "auto", SINGLE, ["1", "0"], [0, 1]),
    ("csv", ("01", "1", "03"), None, "auto", SINGLE, ["0", "1", "2", "3"], [1, 1, 3]),
    ("json", (1, 5), None, "auto", SINGLE, ["0", "1", "2", "3", "4", "5"], [1, 5]),
    ("csv", ("1.0", "3.0"), None, "auto", REGRESSION, [], [1.0, 3.0]),
    ("csv", ("0.0", "1.0"), None, "auto", SINGLE, ["0", "1"], [0, 1]),
    ("csv", ("1.0", "3.0"), None, "single_label", SINGLE, ["0", "1", "2", "3"], [1, 3]),
    ("csv", ("0.5", "2"), None, "single_label", SINGLE, ["0.5", "2"], [0, 1]),
    ("csv", ("1", "2"), None, "regression", REGRESSION, [], [1.0, 2.0]),
    ("json", (0.5, 2), None, "auto", REGRESSION, [], [0.5, 2.0]),
    ("json", (True, False), None, "auto", SINGLE, ["0", "1"], [1, 0]),
    ("json", (True, 2), None, "auto", SINGLE, ["0", "1", "2"], [1, 2]),
    ("csv", ("True", "1"), None, "auto", SINGLE, ["1", "True"], [1, 0]),
    ("json", (["b", "a"], ["a"]), None, "auto", MULTI, ["a", "b"], [[1, 1], [1, 0]]),
    ("json", ([2], [0]), None, "auto", MULTI, ["0", "1", "2"], [[0, 0, 1], [1, 0, 0]]),
    ("csv", ("no", "yes"), ("yes", "no"), "auto", SINGLE, ["yes", "no"], [1, 0]),
    ("csv", ("0", "1"), ("no", "yes"), "auto", SINGLE, ["no", "yes"], [0, 1]),
    ("csv", ("1_0", "2"), None, "auto", SINGLE, list(map(str, range(11))), [10, 2]),
    ("json", (1.0, 0.0), None, "auto", SINGLE, ["0", "1"], [1, 0]),
]


@pytest.mark.parametrize(("form", "labels", "names", "given", "problem", "learnt", "targets"), TABLE)
def test_labels_are_learnt_as_they_were(
    form: str, labels: Any, names: Any, given: str, problem: str, learnt: list[str], targets: list[Any]
) -> None:
    made = LabelsFromZero(names, given, None)
    found = [LocatedLabel(made.as_read(label), "here") for label in labels]
    made.learn(found, form == "csv", None)
    assert (made.problem_type, made.names) == (problem, learnt)
    assert [np.asarray(made.target(one)).tolist() for one in found] == targets
    later = LabelsFromZero(None, "auto", None)
    later.restore(made.names, made.problem_type, made.numbered)
    assert [np.asarray(later.target(one)).tolist() for one in found] == targets


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ((-1, 1), "here: the label is -1; class numbers begin at 0"),
        ((3, 4_000_000), "here: the label is 4000000; class numbers end at 999,999"),
        ((3, 10**9), "class numbers end at 999,999"),
        ((1, "a"), "mixed types: text in here"),
    ],
)
def test_integers_that_are_no_class_numbers_are_refused(labels: Any, expected: str) -> None:
    made = LabelsFromZero(None, "auto", None)
    with pytest.raises(ValueError, match=expected):
        made.learn([LocatedLabel(label, "here") for label in labels], False, None)


def restored(**state: Any) -> Any:
    reader = ClassificationReader("text", None, "label", None, None, "auto", None)
    reader.restore({"labels": ["1", "0"], "problem_type": SINGLE, **state})
    return reader.labels


@pytest.mark.parametrize(
    ("state", "label", "number"),
    [
        ({"numbered": True}, 1, 1),
        ({"numbered": True}, "1", 1),
        ({"numbered": True}, True, 1),
        ({"numbered": False}, "1", 0),
        ({}, 1, 1),
        ({}, "1", 0),
        ({}, 1.0, 1),
        ({"labels": ["LABEL_0", "LABEL_1"]}, "1.0", 1),
        ({"numbered": True, "labels": ["no", "yes"]}, "yes", 1),
        ({"numbered": True, "labels": ["no", "yes"]}, "1", 1),
        ({"numbered": True, "labels": ["false", "true"]}, "True", 1),
        ({"numbered": True, "labels": ["1", "2", "3"]}, 1, 0),
        ({"numbered": True, "labels": ["10115", "20095"]}, "20095", 1),
        ({"numbered": True, "labels": ["0", "1", "2"]}, 1.0, 1),
        ({"numbered": True, "as_written": True}, 1, 0),
        ({"numbered": True, "as_written": True}, "1", 0),
    ],
)
def test_exported_models_read_integers_by_the_rule_that_they_were_trained_with(
    state: Any, label: Any, number: int
) -> None:
    assert restored(**state).target(LocatedLabel(label, "here")) == number


@pytest.mark.parametrize("state", [{}, {"numbered": True}])
def test_class_names_of_a_file_count_where_the_model_has_them(state: dict[str, Any]) -> None:
    labels = restored(labels=["contradiction", "entailment", "neutral"], **state)
    names = ["entailment", "neutral", "contradiction"]
    found = [LocatedLabel(labels.named("here", label, names), "here") for label in (0, 1, 2, -1)]
    assert [labels.target(one) for one in found] == [1, 2, 0, -100]
    assert labels.target(LocatedLabel(labels.named("here", 0, ["other", "names"]), "here")) == 0


@pytest.mark.parametrize("began", [{"layout": "packed"}, {}])
def test_a_model_is_exported_with_the_rule_of_its_run(began: dict[str, Any]) -> None:
    rows = [{"text": f"heron {i}", "label": label} for i, label in enumerate((1, 3, 1))]
    data = data_module("classification", train=rows, validation_documents=0)
    data.take_over(began)
    data.prepare_data()
    state = data.reader.state_dict()
    assert ("as_written" in state) == (not began)
    later = ClassificationReader("text", None, "label", None, None, "auto", None)
    later.restore(state)
    assert later.labels.target(LocatedLabel(3, "here")) == (3 if began else 1)


def test_names_of_a_file_are_those_of_the_numbers(tmp_path: Any) -> None:
    from datasets import ClassLabel, Dataset, Features, Value

    kinds = Features({"text": Value("string"), "label": ClassLabel(names=["pos", "neg", "odd"])})
    made = Dataset.from_dict({"text": ["a", "b", "c"], "label": [1, 0, 1]}, features=kinds)
    made.save_to_disk(str(tmp_path / "s"))
    for labels, names in ((None, ["pos", "neg", "odd"]), (["good", "bad"], ["good", "bad"])):
        data = data_module("classification", train=str(tmp_path / "s"), validation_documents=0, labels=labels)
        data.take_over({"layout": "packed"})
        data.prepare_data()
        sequences: Any = data.train
        assert (data.reader.state_dict()["labels"], sequences.labels.tolist()) == (names, [1, 0, 1])
