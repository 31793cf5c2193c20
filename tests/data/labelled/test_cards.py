"""Class names that stand beside the files of a data set, in its card or `dataset_info.json`, name labels and tags."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from datasets import ClassLabel, Dataset, DatasetInfo, Features, List, Value
from datasets.info import DatasetInfosDict

from tests.data.labelled.tasks import prepared_data
from tiryns.runner.data.labelled.labels import MULTI, Labels
from tiryns.runner.evaluation.kinds.words import TokenPredictions

TAGS = ["O", "B-PER", "I-PER"]
FEATURES = Features(
    {
        "text": Value("string"),
        "label": ClassLabel(names=["no", "yes", "off"]),
        "several": List(ClassLabel(names=["b", "a"])),
        "words": List(Value("string")),
        "labels": List(ClassLabel(names=TAGS)),
    }
)
ROWS = [
    {"text": "ada king", "label": 1, "several": [0, 1], "words": ["Ada", "King"], "labels": [1, 2]},
    {"text": "bo runs", "label": 0, "several": [1], "words": ["Bo", "runs"], "labels": [1, 0]},
    {"text": "no one", "label": 1, "several": [0], "words": ["no"], "labels": [0]},
]
OLD_CARD = """---
license: mit
dataset_info:
  features:
  - name: text
    dtype: string
  - name: label
    dtype:
      class_label:
        names:
          0: no
          1: yes
          2: off
  - name: several
    sequence:
      class_label:
        names: [b, a]
  - name: labels
    sequence:
      class_label:
        names:
          '0': O
          '1': B-PER
          '2': I-PER
---
# A data set
"""


def beside(folder: Path, form: str) -> None:
    """Writes features as the hub and versions of `datasets` do."""
    if form == "card of old":
        (folder / "README.md").write_text(OLD_CARD)
    elif form == "card":
        DatasetInfosDict({"default": DatasetInfo(features=FEATURES)}).write_to_directory(str(folder))
        assert (folder / "README.md").is_file()
    elif form == "card of several":
        cut = Features({**FEATURES, "label": ClassLabel(names=["x", "y", "z"])})
        infos = {"mine": DatasetInfo(features=FEATURES), "other": DatasetInfo(features=cut)}
        DatasetInfosDict(infos).write_to_directory(str(folder))
        text = (folder / "README.md").read_text()
        configs = "configs:\n- config_name: mine\n  data_files:\n  - split: train\n    path: data/tra*\n"
        (folder / "README.md").write_text(text.replace("---\n", f"---\n{configs}", 1))
    elif form == "info":
        DatasetInfo(features=FEATURES).write_to_directory(str(folder))
    else:
        known = {"default": {"features": FEATURES.to_dict()}}
        (folder / "dataset_infos.json").write_text(json.dumps(known))


def files(folder: Path, form: str, name: str = "train", rows: Any = ROWS) -> str:
    (folder / "data").mkdir(exist_ok=True)
    path = folder / "data" / f"{name}.{form}"
    if form == "parquet":
        Dataset.from_list([*rows]).to_parquet(str(path))
    elif form == "csv":
        path.write_text("text,label\n" + "".join(f"{row['text']},{row['label']}\n" for row in rows))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.mark.rows(6)
@pytest.mark.parametrize("form", ["card", "card of old", "card of several", "info", "infos"])
@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_names_beside_files_are_those_of_their_classes(tmp_path: Path, form: str, ending: str) -> None:
    beside(tmp_path, form)
    file = files(tmp_path, ending)
    data = prepared_data(
        "classification", train=file, test=files(tmp_path, ending, "test", [{**ROWS[0], "label": -1}])
    )
    assert data.reader.labels.names == ["no", "yes", "off"]
    assert data.train.labels.tolist() == [1, 0, 1]
    assert (data.test["test"].labels < 0).all()
    if ending == "csv":
        return
    several = prepared_data("classification", train=file, label_column="several")
    assert (several.reader.labels.problem_type, several.reader.labels.names) == (MULTI, ["b", "a"])
    tagged = prepared_data("token_classification", train=file)
    assert tagged.collator_arguments()["labels"] == TAGS
    assert tagged.train.examples[0].labels == ["B-PER", "I-PER"]
    predictions = TokenPredictions(tagged.train, constrained=True)
    assert predictions.figure_names()[0] == predictions.monitor == "entity_f1"


def test_names_of_a_card_may_be_written_or_given_otherwise(tmp_path: Path) -> None:
    beside(tmp_path, "card of old")
    named = [{**row, "label": name} for row, name in zip(ROWS, ("yes", "no", "off"), strict=True)]
    assert prepared_data(
        "classification", train=files(tmp_path, "csv", "a", named)
    ).train.labels.tolist() == [1, 0, 2]
    own = files(tmp_path, "csv", "c", [{**ROWS[0], "label": "maybe"}, {**ROWS[1], "label": "sure"}])
    assert prepared_data("classification", train=own, labels=["sure", "maybe"]).train.labels.tolist() == [
        1,
        0,
    ]


@pytest.mark.parametrize(
    "card",
    ["# no header", "---\nlicense: mit\n---\n", "---\ndataset_info: 3\n---\n", "---\n[\n---\n", "---\n",
     "---\ndataset_info:\n  features: text\n---\n", "---\ndataset_info:\n  features:\n  - dtype: string\n---\n",
     "---\ndataset_info:\n  features:\n  - name: label\n    dtype: &a\n      dtype: *a\n---\n",
     "---\ndataset_info:\n  features:\n  - name: label\n    dtype:\n      class_label: 3\n---\n"],
)  # fmt: skip
def test_cards_of_something_else_are_passed_over(tmp_path: Path, card: str) -> None:
    (tmp_path / "README.md").write_text(card)
    assert prepared_data("classification", train=files(tmp_path, "jsonl")).reader.labels.names == ["0", "1"]


def test_configurations_that_differ_name_nothing_and_earlier_runs_stay_without_names(tmp_path: Path) -> None:
    beside(tmp_path, "card of several")
    other = files(tmp_path, "jsonl", "other")
    assert prepared_data("classification", train=other).reader.labels.names == ["0", "1"]
    assert prepared_data("token_classification", train=other).collator_arguments()["labels"] == [
        "0",
        "1",
        "2",
    ]
    data = prepared_data("classification", {"layout": "packed"}, train=files(tmp_path, "jsonl"))
    assert data.reader.state_dict()["labels"] == ["0", "1"]


CARD = """---
dataset_info:
  features:
  - name: label
    dtype:
      class_label:
        names: [{names}]
---
"""


def named(folder: Path, names: str | None, labels: Sequence[Any], form: str = "csv") -> str:
    """A file with labels in a folder of its own, which names their classes in a card, a schema or not at all."""
    folder = folder / f"{form}{len(list(folder.iterdir()))}"
    folder.mkdir()
    texts = [f"text {i}" for i in range(len(labels))]
    path = folder / f"a.{form}"
    if form == "parquet":
        kinds = {"text": Value("string"), "label": ClassLabel(names=(names or "").split(", "))}
        rows = {"text": texts, "label": list(labels)}
        Dataset.from_dict(rows, features=Features(kinds) if names else None).to_parquet(str(path))
        return str(path)
    if names:
        (folder / "README.md").write_text(CARD.format(names=names))
    if form == "csv":
        path.write_text("text,label\n" + "".join(f"{t},{n}\n" for t, n in zip(texts, labels, strict=True)))
    else:
        written = [json.dumps({"text": t, "label": n}) for t, n in zip(texts, labels, strict=True)]
        path.write_text("\n".join(written))
    return str(path)


FORMS = ["csv", "jsonl", "parquet"]


@pytest.mark.rows(9)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("train", "labels", "given", "later", "numbers"),
    [
        (None, [0, 1, 0], None, "neg, pos", [0, 1]),  # the training data has numbers
        (None, [0, 1, 2], None, "neg, pos", [0, 1]),
        ("neg, pos", [0, 1, 0], None, None, [0, 1]),
        ("neg, pos", [0, 1, 0], None, "pos, neg", [1, 0]),  # names that both have
        ("neg, pos, odd", [0, 1, 2], None, "odd, neg", [2, 0]),
        (None, [0, 1, 0], ["bad", "good"], "neg, pos", [0, 1]),  # data.labels names the numbers
        ("neg, pos", [0, 1, 0], ["bad", "good"], "neg, pos", [0, 1]),
        ("neg, pos", [0, 1, 0], ["pos", "neg"], "neg, pos", [1, 0]),  # or gives the names another order
        (None, [1, 2, 3], None, "1, 2, 3", [0, 1]),  # names of the classes that occur
    ],
)
def test_the_classes_of_training_tell_whether_the_names_of_a_later_file_count(
    form: str, train: Any, labels: Any, given: Any, later: Any, numbers: list[int], tmp_path: Path
) -> None:
    sets = {"train": named(tmp_path, train, labels, form), "labels": given}
    texts = [0, 1] if form != "csv" or labels != [1, 2, 3] else [1, 2]
    data = prepared_data("classification", **sets, validation=named(tmp_path, later, texts, form))
    assert data.validation["validation"].labels.tolist() == numbers
    own = [1, 0, 1] if given == ["pos", "neg"] else [n - min(labels) for n in labels]
    assert data.train.labels.tolist() == own


@pytest.mark.parametrize("form", FORMS)
def test_names_that_training_lacks_are_refused_and_not_numbered(form: str, tmp_path: Path) -> None:
    train = named(tmp_path, "neg, pos", [0, 1, 0], form)
    with pytest.raises(ValueError, match="'bad' does not occur in the training data, which has neg, pos"):
        prepared_data("classification", train=train, validation=named(tmp_path, "bad, good", [0, 1], form))
    texts = named(tmp_path, None, ["neg", "pos", "neg"])
    with pytest.raises(ValueError, match="'bad' does not occur in the training data, which has neg, pos"):
        prepared_data("classification", train=texts, validation=named(tmp_path, "bad, good", [0, 1], form))
    both = prepared_data("classification", train=texts, validation=named(tmp_path, "pos, neg", [0, 1], form))
    assert both.validation["validation"].labels.tolist() == [1, 0]


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    ("labels", "numbers"),
    [([0, 1, 4], [0, 1, 4]), ([1, 2, 5], [0, 1, 4]), (["1", "5", "2"], [0, 4, 1]), ([4, 0, 4], [4, 0, 4])],
)
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_classes_that_are_named_by_numbers_are_told_by_all_labels_of_a_file(
    labels: Any, numbers: list[int], form: str, tmp_path: Path
) -> None:
    if form == "jsonl":
        labels = list(map(str, labels))
    data = prepared_data("classification", train=named(tmp_path, "'1', '2', '3', '4', '5'", labels, form))
    assert data.collator_arguments()["labels"] == list("12345")
    assert data.train.labels.tolist() == numbers


@pytest.mark.parametrize("wrong", ["maybe", "Neg", 2, 0.5, "0.5", -2])
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_labels_that_are_no_class_of_the_file_are_refused(form: str, wrong: Any, tmp_path: Path) -> None:
    file = named(tmp_path, "neg, pos", ["neg", "pos", wrong] if form == "csv" else [0, 1, wrong], form)
    with pytest.raises(ValueError, match=r"the label is '?[\w.-]+'?; class numbers are 0 to 1: neg, pos"):
        prepared_data("classification", train=file)


def test_named_classes_are_classes_whatever_their_names_look_like(tmp_path: Path) -> None:
    joined = prepared_data("classification", train=named(tmp_path, "a, b, 'a,b'", [0, 1, 2]))
    assert joined.collator_arguments()["labels"] == ["a", "b", "a,b"]
    halves = prepared_data("classification", train=named(tmp_path, "'0.5', '1.0', '1.5'", [0, 1, 2]))
    assert halves.train.labels.tolist() == [0, 1, 2]
    stars = named(tmp_path, "one star, two stars, three stars", [0, 1, 2], "parquet")
    regressed = prepared_data("classification", train=stars, problem_type="regression")
    assert regressed.train.labels.tolist() == [0.0, 1.0, 2.0]


def test_class_names_are_looked_up_by_an_index() -> None:
    class Names(list[str]):
        def __contains__(self, name: object) -> bool:
            raise AssertionError(f"{name} is looked for in a list")

    names = Names(f"class {i}" for i in range(50))
    labels = Labels(None, "auto", None)
    classes = labels.class_names(names, names[::-1])
    assert [classes.of("here", label) for label in (*names, 7, "7")] == [*names, "class 7", "class 7"]


def test_tags_of_a_later_file_are_those_of_training(tmp_path: Path) -> None:
    beside(tmp_path, "info")
    train = files(tmp_path, "jsonl")
    (tmp_path / "plain").mkdir()
    plain = tmp_path / "plain" / "data" / "more" / "valid.jsonl"
    plain.parent.mkdir(parents=True)
    plain.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    counted = prepared_data("token_classification", train=train, validation=str(plain))
    assert [one.labels for one in counted.validation["validation"].examples] == [
        one.labels for one in counted.train.examples
    ]
    numbered = prepared_data("token_classification", train=str(plain), validation=train)
    assert numbered.collator_arguments()["labels"] == ["0", "1", "2"]
    assert numbered.validation["validation"].examples[0].labels == ["1", "2"]
    other = ["O", "B-LOC", "I-LOC"]
    renamed = prepared_data("token_classification", train=train, labels=other)
    assert renamed.train.examples[0].labels == other[1:]
