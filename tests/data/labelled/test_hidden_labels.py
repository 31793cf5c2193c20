"""Test sets with hidden labels (-1) are predicted and not measured."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.data.labelled.tasks import prepared_data
from tests.data.labelled.test_hub_habits import lines, texts
from tiryns.runner.data.labelled.classification import ClassificationReader
from tiryns.runner.data.labelled.labels import MULTI, known_labels
from tiryns.runner.data.labelled.spelling import is_hidden, is_negative
from tiryns.runner.data.pairs.reader import PairsReader
from tiryns.runner.data.read.rows import read_rows
from tiryns.runner.inference.kinds import PLAIN
from tiryns.runner.inference.labelled import Labels


@pytest.mark.parametrize(
    ("train", "test", "known"),
    [
        ((0, 1, 0, 1), (-1, -1), 0),
        ((0, 1, 0, 1), (-1, 1, -1), 1),
        (("neg", "pos"), (-1, -1), 0),
        ((0.5, 4.75, 0.0), (-1.0, -1.0), 0),
        ((0.5, 4.75, 0.0), (-1, 2.5), 1),
        (([0, 1], [2]), ([-1], [-1]), 0),
        ((True, False), (-1, -1), 0),
        ((-1, 0, 1), (-1, 0, 1), 3),
        ((-2.5, 0.5), (-1.0, 1.5), 2),
    ],
)
def test_hidden_labels_are_predicted_and_not_measured(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, train: Any, test: Any, known: int
) -> None:
    files = lines(tmp_path / "train.jsonl", texts(*train)), lines(tmp_path / "test.jsonl", texts(*test))
    with caplog.at_level("INFO", "tiryns"):
        data = prepared_data("classification", train=files[0], test=files[1])
    sequences = data.test["test"]
    assert len(sequences) == len(test)
    assert len(known_labels(sequences.labels)) == known
    said = f"{len(test) - known} of {len(test)} labels are hidden (-1)"
    assert (said in caplog.text) == (known < len(test))


def test_hidden_labels_of_tables_tags_and_choices(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,label\na b,0\nc d,1\n")
    (tmp_path / "test.csv").write_text("text,label\na b,-1\nc d,-1\n")
    table = prepared_data(
        "classification", train=str(tmp_path / "train.csv"), test=str(tmp_path / "test.csv")
    )
    assert (table.test["test"].labels < 0).all()
    words: list[dict[str, Any]] = [
        {"words": ["Ada", "runs"], "labels": [1, 0]},
        {"words": ["Bo"], "labels": [1]},
    ]
    hidden = [{**row, "labels": [-1] * len(row["words"])} for row in words]
    tagged = prepared_data(
        "token_classification",
        train=lines(tmp_path / "a.jsonl", words),
        test=lines(tmp_path / "b.jsonl", hidden),
    )
    assert [example.labels for example in tagged.test["test"].examples] == [None, None]
    choices = [{"text": "x", "choices": ["a", "b"], "label": label} for label in (0, 1)]
    chosen = prepared_data(
        "multiple_choice",
        train=lines(tmp_path / "c.jsonl", choices),
        test=lines(tmp_path / "d.jsonl", [{**row, "label": -1} for row in choices]),
    )
    assert (chosen.test["test"].labels < 0).all()


@pytest.mark.parametrize("ending", ["csv", "jsonl", "code"])
def test_one_hot_columns_of_a_test_set_may_be_hidden(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, ending: str
) -> None:
    def written(name: str, *flags: tuple[Any, Any]) -> Any:
        rows = [{"text": f"{name} {i}", "a": a, "b": b} for i, (a, b) in enumerate(flags)]
        if ending == "code":
            return [{**row, "a": np.int64(row["a"]), "b": np.int64(row["b"])} for row in rows]
        if ending == "jsonl":
            return lines(tmp_path / f"{name}.jsonl", rows)
        (tmp_path / f"{name}.csv").write_text(
            "text,a,b\n" + "".join(",".join(map(str, row.values())) + "\n" for row in rows)
        )
        return str(tmp_path / f"{name}.csv")

    columns = {"label_columns": ["a", "b"], "problem_type": "multi_label"}
    train = written("train", (1, 0), (0, 1), (1, 1))
    with caplog.at_level("INFO", "tiryns"):
        data = prepared_data(
            "classification", train=train, test=written("test", (-1, -1), (-1, -1)), **columns
        )
    sequences: Any = data.test["test"]
    assert np.isnan(sequences.labels).all()
    assert len(sequences) == 2
    assert "2 of 2 labels are hidden (-1)" in caplog.text
    some = prepared_data("classification", train=train, test=written("some", (-1, -1), (0, 1)), **columns)
    assert len(known_labels(some.test["test"].labels)) == 1
    with pytest.raises(ValueError, match=r"column 'a' holds .*-1.*, expected 0 or 1"):
        prepared_data("classification", train=train, test=written("half", (-1, 1)), **columns)
    for part in (
        {"train": written("minus", (-1, -1), (0, 1))},
        {"train": train, "validation": written("v", (-1, -1))},
    ):
        with pytest.raises(ValueError, match=r"column 'a' holds .*-1.*, expected 0 or 1"):
            prepared_data("classification", **part, **columns)


def test_numbers_of_numpy_and_lists_are_negative_as_well() -> None:
    below = (-1, "-2", -0.5, np.int64(-1), np.float32(-2), [3, -1], (np.int8(-1),), np.array([0, -1]))
    others: list[Any] = [0, "1", None, "", "-", [], [0, 1], np.int64(3), np.array([0, 2]), float("nan"), True]
    assert all(map(is_negative, below))
    assert not any(map(is_negative, others))
    rows = texts(np.int64(-1), np.int64(0), np.int64(1))
    data = prepared_data("classification", train=rows, test=texts(np.int64(-1), np.int64(1)))
    assert data.test["test"].labels.tolist() == [0, 2]
    listed = prepared_data("classification", train=texts([-1, 0], [1]), test=texts([-1], [1]))
    assert len(known_labels(listed.test["test"].labels)) == 2


def test_hidden_tags_of_all_columns_are_predicted(tmp_path: Path) -> None:
    words: list[dict[str, Any]] = [{"words": ["Ada", "runs"], "ner": [1, 0], "pos": [0, 1]}]
    hidden = [{"words": ["Bo", "runs"], "ner": [-1, -1], "pos": [-1, -1]}]
    data = prepared_data("joint_tagging", train=words, test=hidden, tag_columns=["ner", "pos"])
    assert data.test["test"].examples[0].labels == {}


def test_a_hidden_label_in_validation_is_an_error(tmp_path: Path) -> None:
    files = lines(tmp_path / "a.jsonl", texts(0, 1)), lines(tmp_path / "b.jsonl", texts(-1, 1))
    with pytest.raises(ValueError, match="the label -1 does not occur in the training data"):
        prepared_data("classification", train=files[0], validation=files[1])


def model_of(reader: Any, **parts: Any) -> Labels:
    """A trained model as far as reading rows needs it: without its weights."""
    model = object.__new__(Labels)
    vars(model).update(reader=reader, **parts)
    return model


@pytest.mark.parametrize(
    ("learnt", "labels", "hidden"),
    [
        ({"labels": ["0", "1"], "problem_type": "single_label_classification"}, (-1, 1), 1),
        ({"labels": ["-1", "1"], "problem_type": "single_label_classification"}, (-1, 1), 0),
        ({"labels": [], "problem_type": "regression"}, (-1.0, -1.0), 2),
        ({"labels": [], "problem_type": "regression"}, (-1.0, 0.5), 0),
        ({"told_by": "number"}, (-1, 0), 1),
        ({PairsReader.learnt[0]: 0}, (-1.0, 1.0), 0),
    ],
)
def test_later_data_may_hide_labels_as_well(learnt: Any, labels: Any, hidden: int) -> None:
    reader = SimpleNamespace(
        state_dict=lambda: learnt, label_names=lambda: ("label",), arranged=lambda rows: rows
    )
    found = model_of(reader).arrange(read_rows(texts(*labels)))
    assert sum(row.values["label"] is None for row in found.rows) == hidden
    assert not is_hidden(True)


def test_rows_to_predict_are_arranged_once_and_their_hidden_labels_counted_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = ClassificationReader("text", None, "label", None, None, "auto", None, ["a", "b"])
    reader.restore({"labels": ["a", "b"], "problem_type": MULTI, "numbered": False})
    calls: list[list[Any]] = []
    arrange = reader.arranged

    def counted(rows: Any) -> Any:
        calls.append([])
        return arrange(rows)

    def tokenized(examples: list[Any], *_: Any, **__: Any) -> Any:
        calls[-1].extend(examples)
        return ()

    monkeypatch.setattr(reader, "arranged", counted)
    monkeypatch.setattr(reader, "tokenize", tokenized)
    tokenizer = SimpleNamespace(model_max_length=9)
    model = model_of(reader, tokenizer=tokenizer, settings={"max_length": 9})
    rows = read_rows([{"text": "x", "a": -1, "b": -1}, {"text": "y", "a": 1, "b": 0}])
    with caplog.at_level("INFO", "tiryns"):
        model.predict(rows, PLAIN, 0, figures=True)
        assert [[one.label.label for one in some] for some in calls] == [[None, ["a"]]]
        model.samples(model.arrange(rows), usable=True)
    assert [[one.label.label for one in some] for some in calls] == [[None, ["a"]]] * 2
    assert caplog.text.count("1 of 2 labels are hidden (-1)") == 2


WORDS = {"words": ["Ada", "runs"], "pos": [0, 1], "size": [2, 0]}


def joint(folder: Path, *rows: dict[str, Any], **sets: list[dict[str, Any]]) -> Any:
    train = lines(folder / "train.jsonl", [WORDS, {**WORDS, "size": [1, 1]}, *rows])
    later = {name: lines(folder / f"{name}.jsonl", some) for name, some in sets.items()}
    return prepared_data(
        "joint_tagging", train=train, tag_columns=["pos", "size"], label_column="labels", **later
    )


def test_labels_that_a_row_hides_in_one_column_are_neither_learnt_nor_measured(tmp_path: Path) -> None:
    hidden = {**WORDS, "size": [-1, -1]}
    data = joint(tmp_path, hidden, validation=[WORDS, hidden], test=[hidden, {**WORDS, "pos": [-1, -1]}])
    assert data.collator_arguments()["labels"] == ["pos=0", "pos=1", "size=0", "size=1", "size=2"]
    columns = data.train.columns
    assert columns["pos"].word_labels.tolist() == [0, 1] * 3
    assert columns["size"].word_labels.tolist() == [2, 0, 1, 1, -100, -100]
    assert data.validation["validation"].columns["size"].word_labels.tolist() == [2, 0, -100, -100]
    tested = data.test["test"].columns
    assert tested["pos"].word_labels.tolist() == [0, 1, -100, -100]
    assert tested["size"].word_labels.tolist() == [-100, -100, 2, 0]
    assert data.fingerprint() != joint(tmp_path, WORDS).fingerprint()


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([2, -1], "column 'size': the label of word 2 is -1, a hidden one; hide all labels of the row in"),
        ([-1, 0], "column 'size': the label of word 1 is -1, a hidden one; hide all labels of the row in"),
        ([-2, 0], "column 'size': the label is -2; class numbers begin at 0"),
        ([-2, -2], "column 'size': the label is -2; class numbers begin at 0"),
    ],
)
def test_labels_that_are_hidden_for_some_words_are_an_error_with_their_column(
    labels: list[int], expected: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=rf"train.jsonl, line 3: {expected}"):
        joint(tmp_path, {**WORDS, "size": labels})


def test_a_column_that_every_row_hides_and_a_row_that_hides_every_column_are_errors(tmp_path: Path) -> None:
    every = {**WORDS, "pos": [-1, -1], "size": [-1, -1]}
    with pytest.raises(ValueError, match="line 3: there is no label in columns pos, size"):
        joint(tmp_path, every)
    rows = lines(tmp_path / "a.jsonl", [{**WORDS, "size": [-1, -1]}])
    with pytest.raises(ValueError, match="no row of the training data has labels in the column 'size'"):
        prepared_data("joint_tagging", train=rows, tag_columns=["pos", "size"], label_column="labels")
    assert joint(tmp_path, test=[every]).test["test"].columns["pos"].word_labels.tolist() == [-100, -100]


def test_minus_one_as_text_is_a_label(tmp_path: Path) -> None:
    data = joint(tmp_path, {**WORDS, "size": ["-1", "-1"]}, {**WORDS, "size": ["0", "1"]})
    assert "size=-1" in data.collator_arguments()["labels"]
