"""Class names that stand beside the files of a data set, in its card or `dataset_info.json`, name labels and tags."""

import json
from pathlib import Path
from typing import Any

import pytest
from datasets import ClassLabel, Dataset, DatasetInfo, Features, List, Value
from datasets.info import DatasetInfosDict

from tests.data.labelled.tasks import data_module
from tiryns.runner.data.labelled.labels import MULTI
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


def prepared(option: str, **fields: Any) -> Any:
    data = data_module(option, **{"validation_documents": 0, **fields})
    data.prepare_data()
    return data


@pytest.mark.parametrize("form", ["card", "card of old", "card of several", "info", "infos"])
@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_names_beside_files_are_those_of_their_classes(tmp_path: Path, form: str, ending: str) -> None:
    beside(tmp_path, form)
    file = files(tmp_path, ending)
    data = prepared(
        "classification", train=file, test=files(tmp_path, ending, "test", [{**ROWS[0], "label": -1}])
    )
    assert data.reader.labels.names == ["no", "yes", "off"]
    assert data.train.labels.tolist() == [1, 0, 1]
    assert (data.test["test"].labels < 0).all()
    if ending == "csv":
        return
    several = prepared("classification", train=file, label_column="several")
    assert (several.reader.labels.problem_type, several.reader.labels.names) == (MULTI, ["b", "a"])
    tagged = prepared("token_classification", train=file)
    assert tagged.collator_arguments()["labels"] == TAGS
    assert tagged.train.examples[0].labels == ["B-PER", "I-PER"]
    predictions = TokenPredictions(tagged.train, constrained=True)
    assert predictions.figure_names()[0] == predictions.monitor == "entity_f1"


def test_what_is_named_otherwise_is_told_and_may_be_given(tmp_path: Path) -> None:
    beside(tmp_path, "card of old")
    named = [{**row, "label": name} for row, name in zip(ROWS, ("yes", "no", "off"), strict=True)]
    assert prepared("classification", train=files(tmp_path, "csv", "a", named)).train.labels.tolist() == [
        1,
        0,
        2,
    ]
    for wrong in (3, "maybe", -2):
        file = files(tmp_path, "csv", "b", [*ROWS, {**ROWS[0], "label": wrong}])
        with pytest.raises(
            ValueError,
            match=f"line 5: the label is '{wrong}'; class numbers are 0 to 2: no, yes, off",
        ):
            prepared("classification", train=file)
    own = files(tmp_path, "csv", "c", [{**ROWS[0], "label": "maybe"}, {**ROWS[1], "label": "sure"}])
    assert prepared("classification", train=own, labels=["sure", "maybe"]).train.labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    "card",
    ["# no header", "---\nlicense: mit\n---\n", "---\ndataset_info: 3\n---\n", "---\n[\n---\n", "---\n",
     "---\ndataset_info:\n  features: text\n---\n", "---\ndataset_info:\n  features:\n  - dtype: string\n---\n",
     "---\ndataset_info:\n  features:\n  - name: label\n    dtype: &a\n      dtype: *a\n---\n",
     "---\ndataset_info:\n  features:\n  - name: label\n    dtype:\n      class_label: 3\n---\n"],
)  # fmt: skip
def test_cards_of_something_else_are_passed_over(tmp_path: Path, card: str) -> None:
    (tmp_path / "README.md").write_text(card)
    assert prepared("classification", train=files(tmp_path, "jsonl")).reader.labels.names == ["0", "1"]


def test_configurations_that_differ_name_nothing_and_earlier_runs_stay_without_names(tmp_path: Path) -> None:
    beside(tmp_path, "card of several")
    other = files(tmp_path, "jsonl", "other")
    assert prepared("classification", train=other).reader.labels.names == ["0", "1"]
    assert prepared("token_classification", train=other).collator_arguments()["labels"] == ["0", "1", "2"]
    data = data_module("classification", train=files(tmp_path, "jsonl"), validation_documents=0)
    data.take_over({"layout": "packed"})
    data.prepare_data()
    assert data.reader.state_dict()["labels"] == ["0", "1"]
