"""Runs and models of earlier versions count integers from 0 and parse all labels of a table alike."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.labelled.tasks import prepared_data
from tests.data.labelled.test_cards import CARD
from tiryns.runner.data.labelled.classification import ClassificationReader
from tiryns.runner.data.labelled.labels import MULTI, REGRESSION, SINGLE, Labels
from tiryns.runner.data.labelled.labels_from_zero import LabelsFromZero
from tiryns.runner.data.labelled.spelling import LocatedLabel
from tiryns.runner.data.labelled.words.annotations import choice_of, task_of
from tiryns.runner.data.read.rows import LabelRule, Row
from tiryns.runner.inference.labelled import saved_task

FROM_ZERO, AS_WRITTEN, AS_NAMED = LabelRule

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


def restored(rule: LabelRule, **state: Any) -> Any:
    reader = ClassificationReader("text", None, "label", None, None, "auto", None)
    reader.rule = rule
    reader.restore({"labels": ["1", "0"], "problem_type": SINGLE, **state})
    return reader.labels


@pytest.mark.parametrize(
    ("rule", "state", "label", "number"),
    [
        (FROM_ZERO, {"numbered": True}, 1, 1),
        (FROM_ZERO, {"numbered": True}, "1", 1),
        (FROM_ZERO, {"numbered": True}, True, 1),
        (FROM_ZERO, {"numbered": False}, "1", 0),
        (FROM_ZERO, {"numbered": True, "labels": ["no", "yes"]}, "yes", 1),
        (FROM_ZERO, {"numbered": True, "labels": ["no", "yes"]}, "1", 1),
        (FROM_ZERO, {"numbered": True, "labels": ["false", "true"]}, "True", 1),
        (FROM_ZERO, {"numbered": True, "labels": ["0", "1", "2"]}, 1.0, 1),
        (AS_WRITTEN, {"numbered": True}, 1, 0),
        (AS_WRITTEN, {"numbered": True}, "1", 0),
        (AS_WRITTEN, {"numbered": True}, 1.0, 0),
        (AS_WRITTEN, {"numbered": True, "labels": ["1", "2", "3"]}, 1, 0),
        (AS_WRITTEN, {"numbered": True, "labels": ["3", "1", "2"]}, 2, 2),
        (AS_WRITTEN, {"numbered": True, "labels": ["10115", "20095"]}, "20095", 1),
        (AS_WRITTEN, {"numbered": True, "labels": ["no", "yes"]}, 1, 1),
        (AS_NAMED, {"numbered": True}, 1, 0),
        (AS_NAMED, {}, 1, 1),  # trained elsewhere
        (AS_NAMED, {}, "1", 0),
        (AS_NAMED, {}, 1.0, 1),
        (AS_NAMED, {"labels": ["LABEL_0", "LABEL_1"]}, "1.0", 1),
    ],
)
def test_exported_models_read_integers_by_the_rule_that_they_were_trained_with(
    rule: LabelRule, state: Any, label: Any, number: int
) -> None:
    assert restored(rule, **state).target(LocatedLabel(label, "here")) == number


@pytest.mark.parametrize(
    ("folder", "rule"),
    [
        ({"data": {"task": "classification", "label_columns": None}}, AS_WRITTEN),  # 0.3.0
        ({"data": {"task": "classification"}}, FROM_ZERO),  # 0.2.0
        ({"data": {"label_columns": None}, **AS_NAMED.record}, AS_NAMED),
        ({"data": {"label_columns": None}, **FROM_ZERO.record}, FROM_ZERO),  # a run of 0.2 that went on
    ],
)
def test_the_folder_of_a_model_tells_its_rule(folder: Any, rule: LabelRule, tmp_path: Any) -> None:
    (tmp_path / "task.json").write_text(json.dumps(folder))
    assert LabelRule.of(saved_task(str(tmp_path)) or {}) is rule


@pytest.mark.parametrize("text", ["1_0", " 1_0 ", "1_0.0", "1_0e1"])
@pytest.mark.parametrize("rule", [Labels, LabelsFromZero])
def test_underscores_make_no_numbers(text: str, rule: type[Labels]) -> None:
    classes = rule(None, "auto", None)
    found = [LocatedLabel(label, "here") for label in (text, "2", "2")]
    classes.learn(found, True, None)
    assert classes.names == sorted([text, "2"])
    regressed = rule(None, "regression", None)
    regressed.learn(found[1:], True, None)
    assert regressed.target(LocatedLabel("02.50", "here")) == 2.5
    with pytest.raises(ValueError, match="expected a finite number"):
        regressed.target(found[0])


@pytest.mark.parametrize("label", [1.0, "1.0", "1", np.float64(1), True])
@pytest.mark.parametrize("textual", [True, False])
def test_whole_numbers_with_a_point_are_class_numbers_in_every_set(label: Any, textual: bool) -> None:
    made = LabelsFromZero(None, "auto", None)
    made.learn([LocatedLabel(str(x) if textual else x, "here") for x in (0, 1, 2)], textual, None)
    assert made.target(LocatedLabel(made.as_read(label), "here")) == 1
    with pytest.raises(ValueError, match=r"the label 1.5 does not occur"):
        made.target(LocatedLabel(1.5, "here"))


@pytest.mark.parametrize(("rule", "state"), [(AS_NAMED, {}), (FROM_ZERO, {"numbered": True})])
def test_class_names_of_a_file_count_where_the_model_has_them(rule: LabelRule, state: Any) -> None:
    labels = restored(rule, labels=["contradiction", "entailment", "neutral"], **state)
    classes = labels.class_names(["entailment", "neutral", "contradiction"], (0, 1, 2, -1))
    found = [LocatedLabel(classes.of("here", label), "here") for label in (0, 1, 2, -1)]
    assert [labels.target(one) for one in found] == [1, 2, 0, -100]
    assert labels.class_names(["other", "names"], [0]).of("here", 0) == 0


@pytest.mark.parametrize("began", [{"layout": "packed"}, AS_WRITTEN.record, {}])
def test_a_model_is_exported_with_the_rule_of_its_run(began: dict[str, Any]) -> None:
    rows = [{"text": f"heron {i}", "label": label} for i, label in enumerate((1, 3, 1))]
    data = prepared_data("classification", began, train=rows)
    rule = LabelRule.of(began) if began else AS_NAMED
    assert rule.record.items() <= data.known_task().items()
    assert rule.record.items() <= data.decisions().items()
    labels = restored(LabelRule.of(data.known_task()), **data.reader.state_dict())
    assert labels.target(LocatedLabel(3, "here")) == (3 if rule is FROM_ZERO else 1)


def test_a_run_of_0_3_goes_on_without_cards_and_without_refusals_of_later(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(CARD.format(names="neg, pos"))
    (tmp_path / "a.csv").write_text("text,label\nheron,1\nbridge,0\nriver,1\n")
    (tmp_path / "b.csv").write_text('text,topics\nheron,a\nbridge,b\nriver,"a,b"\n')
    (tmp_path / "c.jsonl").write_text('{"words": ["a", "b"], "label": [1, 0]}\n')
    record = {"tables": {}, "labels": "as written", "layout": "packed"}

    def prepared(began: dict[str, Any], option: str = "classification", **fields: Any) -> Any:
        return prepared_data(option, began, **fields)

    train, topics = str(tmp_path / "a.csv"), {"train": str(tmp_path / "b.csv"), "label_column": "topics"}
    older = prepared(record, train=train)
    assert older.collator_arguments()["labels"] == ["0", "1"]
    assert older.decisions()["labels"] == "as written"
    assert prepared(older.decisions(), train=train).fingerprint() == older.fingerprint()
    assert prepared({}, train=train).collator_arguments()["labels"] == ["neg", "pos"]
    assert prepared(record, **topics).collator_arguments()["labels"] == ["a", "a,b", "b"]
    with pytest.raises(ValueError, match="reads as several labels"):
        prepared({}, **topics)
    words: dict[str, Any] = {
        "option": "token_classification", "train": str(tmp_path / "c.jsonl"), "label_column": "label"
    }  # fmt: skip
    assert prepared(record, **words).collator_arguments()["labels"] == ["0", "1"]
    assert prepared({}, **words).collator_arguments()["labels"] == ["neg", "pos"]
    joint = words | {"option": "joint_tagging", "tag_columns": ["label"], "label_column": "labels"}
    assert prepared(record, **joint).collator_arguments()["labels"] == ["label=0", "label=1"]
    assert prepared({}, **joint).collator_arguments()["labels"] == ["label=neg", "label=pos"]


def test_a_run_of_0_3_keeps_its_entities_and_its_answers(tmp_path: Path) -> None:
    entity = {"start": 0, "end": 1, "label": "LOC", "word": "\u5317\u4eac"}
    spans = {"text": "\u5317\u4eac", "entities": [entity]}
    question = {"question": "where?", "context": "Rome", "answers": {"text": ["Rome"], "answer_start": [0]}}
    lines = [question | {"id": str(i), "is_impossible": say} for i, say in enumerate(("TRUE", "FALSE"))]
    (tmp_path / "spans.jsonl").write_text(json.dumps(spans))
    (tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, lines)))

    def examples(option: str, name: str, began: dict[str, Any], **fields: Any) -> Any:
        return prepared_data(option, began, train=str(tmp_path / name), **fields).train.examples

    def answers(began: dict[str, Any]) -> list[Any]:
        read = examples("question_answering", "answers.jsonl", began, doc_stride=8)
        return [one.answers for one in read]

    older = {"labels": "as written"}
    assert examples("token_classification", "spans.jsonl", older)[0].labels == ["B-LOC", "O"]
    with pytest.raises(ValueError, match="add 1 to the ends"):
        examples("token_classification", "spans.jsonl", {})
    assert (answers(older), answers({})) == ([["Rome"], ["Rome"]], [[], ["Rome"]])


def test_names_of_a_file_are_those_of_the_numbers(tmp_path: Any) -> None:
    from datasets import ClassLabel, Dataset, Features, Value

    kinds = Features({"text": Value("string"), "label": ClassLabel(names=["pos", "neg", "odd"])})
    made = Dataset.from_dict({"text": ["a", "b", "c"], "label": [1, 0, 1]}, features=kinds)
    made.save_to_disk(str(tmp_path / "s"))
    for labels, names in ((None, ["pos", "neg", "odd"]), (["good", "bad"], ["good", "bad"])):
        data = prepared_data("classification", {"layout": "packed"}, train=str(tmp_path / "s"), labels=labels)
        assert (data.reader.state_dict()["labels"], data.train.labels.tolist()) == (names, [1, 0, 1])


@pytest.mark.parametrize(("column", "expected"), [("words", "Bo"), ("body", "Ada")])
def test_texts_and_sets_of_label_studio_are_chosen_as_they_were(column: str, expected: str) -> None:
    marks = [{"from_name": name, "to_name": "body", "type": "labels", "value": {"start": 0, "end": 1, "labels": [name]}}
             for name in "ab"]  # fmt: skip
    task = {"data": {"title": "Bo", "body": "Ada"}, "annotations": [{"result": marks}]}
    chosen = choice_of([Row("row 1", task)], column, "labels", LabelRule.AS_WRITTEN)
    text, entities = task_of("row 1", task, column, chosen)
    assert (text, len(entities or [])) == (expected, 2)
    with pytest.raises(ValueError, match=r"several sets of labels, a, b: set data\.label_column"):
        choice_of([Row("row 1", task)], column, "labels", LabelRule.AS_NAMED)
