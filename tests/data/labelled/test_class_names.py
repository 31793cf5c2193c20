"""Class names of data sets come with their columns in every format, and name labels in every set."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value

from tests.data.labelled.tasks import prepared_data
from tiryns.runner.evaluation.kinds.words import TokenPredictions

TAGS = ["O", "B-PER", "I-PER"]
NER = Features({"words": List(Value("string")), "labels": List(ClassLabel(names=TAGS))})
SENTENCES = {"words": [["Ada", "King", "sleeps"], ["Bo", "runs"]], "labels": [[1, 2, 0], [1, 0]]}
KINDS = Features({"text": Value("string"), "label": ClassLabel(names=["neg", "pos", "so-so"])})
TEXTS = {"text": ["bad", "good", "worse", "best"], "label": [0, 1, 0, 1]}


def saved(path: Path, rows: Any, features: Features, form: str) -> str:
    data = Dataset.from_dict(rows, features=features)
    if form == "parquet":
        data.to_parquet(str(path / "a.parquet"))
        return str(path / "a.parquet")
    if form == "folder of parquet":
        for number in range(2):
            data.shard(2, number).to_parquet(str(path / f"train-0000{number}-of-00002.parquet"))
        return str(path)
    if form == "arrow":
        data.save_to_disk(str(path / "s"))
        return str(next((path / "s").glob("*.arrow")))
    if form == "saved":
        data.save_to_disk(str(path / "s"))
        return str(path / "s")
    if form == "saved splits":
        DatasetDict({"train": data, "test": data}).save_to_disk(str(path / "s"))
        return str(path / "s@train")
    rewritten = path / "a.parquet"
    data.to_parquet(str(rewritten))
    table = pq.read_table(rewritten)
    info = json.loads(table.schema.metadata[b"huggingface"])
    features_then = info["info"]["features"]
    for name, feature in features_then.items():
        if "feature" in feature:  # as datasets 1 and 2 wrote lists
            old = {"feature": {**feature["feature"], "num_classes": 3, "id": None}, "length": -1, "id": None}
            features_then[name] = {**old, "_type": "Sequence"} if form == "sequence" else [old["feature"]]
    metadata = {**table.schema.metadata, b"huggingface": json.dumps(info).encode()}
    pq.write_table(table.replace_schema_metadata(metadata), rewritten, compression="zstd")
    return str(rewritten)


FORMS = ("parquet", "folder of parquet", "arrow", "saved", "saved splits", "sequence", "old list")


@pytest.mark.parametrize("form", FORMS)
def test_names_of_tags_and_classes_survive_whether_they_occur_or_not(tmp_path: Path, form: str) -> None:
    data = prepared_data("token_classification", train=saved(tmp_path, SENTENCES, NER, form))
    assert data.collator_arguments()["labels"] == TAGS
    assert [example.labels for example in data.train.examples] == [["B-PER", "I-PER", "O"], ["B-PER", "O"]]
    predictions = TokenPredictions(data.train, constrained=True)
    assert predictions.figure_names()[0] == predictions.monitor == "entity_f1"
    (tmp_path / "texts").mkdir()
    data = prepared_data("classification", train=saved(tmp_path / "texts", TEXTS, KINDS, form))
    assert data.collator_arguments()["labels"] == ["neg", "pos", "so-so"]
    assert data.train.labels.tolist() == [0, 1, 0, 1]
    assert [example.label.label for example in data.train.examples] == ["neg", "pos", "neg", "pos"]


def test_names_of_several_labels_and_of_joint_tags_survive(tmp_path: Path) -> None:
    several = Features({"text": Value("string"), "label": List(ClassLabel(names=["b", "a", "c"]))})
    rows = {"text": ["x", "y"], "label": [[0, 2], [1]]}
    data = prepared_data("classification", train=saved(tmp_path, rows, several, "parquet"))
    assert data.reader.labels.names == ["b", "a", "c"]
    assert data.train.labels.tolist() == [[1, 0, 1], [0, 1, 0]]
    kinds = {"ner": NER["labels"], "pos": List(ClassLabel(names=["NOUN", "VERB"]))}
    joint = Features({"words": NER["words"], **kinds})
    both = {"words": SENTENCES["words"], "ner": SENTENCES["labels"], "pos": [[0, 0, 1], [0, 1]]}
    tagged = prepared_data(
        "joint_tagging", train=saved(tmp_path, both, joint, "parquet"), tag_columns=["ner", "pos"]
    )
    assert "pos=VERB" in tagged.reader.flat_names()
    assert "ner=I-PER" in tagged.reader.flat_names()


def test_names_join_sets_that_number_them_differently(tmp_path: Path) -> None:
    train = saved(tmp_path, TEXTS, KINDS, "parquet")
    (tmp_path / "v").mkdir()
    turned = Features({"text": Value("string"), "label": ClassLabel(names=["pos", "neg"])})
    valid = saved(tmp_path / "v", {"text": ["fine", "poor"], "label": [0, 1]}, turned, "parquet")
    data = prepared_data("classification", train=train, validation=valid)
    assert data.validation["validation"].labels.tolist() == [1, 0]
    with pytest.raises(ValueError, match=r"column 'label' differ: neg, pos, so-so in .*, pos, neg in "):
        prepared_data("classification", train=[train, valid])
    listed = tmp_path / "valid.jsonl"
    listed.write_text('{"text": "fine", "label": "pos"}\n{"text": "poor", "label": 0}\n')
    mixed = prepared_data("classification", train=train, validation=str(listed))
    assert mixed.validation["validation"].labels.tolist() == [1, 0]


def test_a_number_without_a_name_is_an_error_and_a_hidden_label_is_none(tmp_path: Path) -> None:
    table = Dataset.from_dict(TEXTS, features=KINDS).data.table
    metadata = Dataset.from_dict(TEXTS, features=KINDS).features.arrow_schema.metadata

    def written(labels: list[int]) -> str:
        changed = table.set_column(1, "label", pa.array(labels, pa.int64())).replace_schema_metadata(metadata)
        pq.write_table(changed, tmp_path / "b.parquet")
        return str(tmp_path / "b.parquet")

    with pytest.raises(ValueError, match="row 1: the label is 3; class numbers are 0 to 2: neg, pos, so-so"):
        prepared_data("classification", train=written([0, 3, 1, 0]))
    with pytest.raises(ValueError, match="row 1: there is no label in column 'label'"):
        prepared_data("classification", train=written([0, -1, 1, 0]))


@pytest.mark.parametrize("content", [b"{", b"null", b'{"info": 3}', b'{"info": {"features": {"label": 7}}}'])
def test_metadata_of_something_else_is_passed_over(tmp_path: Path, content: bytes) -> None:
    table = pa.table({"text": ["a", "b"], "label": [0, 1]}).replace_schema_metadata({b"huggingface": content})
    pq.write_table(table, tmp_path / "a.parquet")
    data = prepared_data("classification", train=str(tmp_path / "a.parquet"))
    assert data.reader.labels.names == ["0", "1"]


def test_a_run_that_began_without_the_names_of_parquet_goes_on_without(tmp_path: Path) -> None:
    train = saved(tmp_path, SENTENCES, NER, "parquet")
    data = prepared_data("token_classification", {"layout": "packed"}, train=train)
    assert data.collator_arguments()["labels"] == ["0", "1", "2"]
